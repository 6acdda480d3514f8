"""Quarantine: a slot that a device may still read is not free, though the loop has let go of it.

``tensor.to("cuda", non_blocking=True)`` returns when the copy is under way. Of memory that is its
own torch takes note and keeps it until the copy is done; of memory that is not, as an arena's, it
takes none. So a slot that the loop has let go of waits here, until a *fence* has been passed: a
mark behind everything that the devices had been given to do when it was set. One fence serves all
slots that wait when it is set, and nothing here ever waits for a device.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

Free = Callable[[], None]
_Answer = TypeVar("_Answer")

_MOST_FENCES = 2
"""While so many are not passed, slots gather for the next: a device that is far behind costs no
more fences than one that is not."""


class Fence(Protocol):
    """A mark behind all work that was given to the devices before it was set."""

    def passed(self) -> bool:
        """Tell whether all that work is done; it never waits."""


class Quarantine:
    """Frees slots once a fence that was set after their end has been passed.

    Args:
        fence: sets a fence.
    """

    def __init__(self, fence: Callable[[], Fence]) -> None:
        self._set_fence = fence
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Begin anew and free nothing: in a forked process the slots are the parent's."""
        self._waiting: deque[Free] = deque()
        self._fenced: deque[tuple[Fence, deque[Free]]] = deque()
        self._turn = threading.Lock()
        self.broken = False

    def __len__(self) -> int:
        """Return how many slots are held back."""
        return len(self._waiting) + sum(len(slots) for _, slots in self._fenced)

    def add(self, free: Free) -> None:
        """Hold a slot back until ``free`` may be called.

        Takes no lock and asks no device: slots end in any thread, amid anything, `settle` too.
        """
        self._waiting.append(free)

    def settle(self) -> None:
        """Free what has become free, and set a fence for what has not got one.

        Where a fence cannot be set or looked at, it is ``broken`` from then on: what is held back
        stays so for good, since nobody can tell when it is free.
        """
        if self.broken or not (self._waiting or self._fenced):
            return
        if not self._turn.acquire(blocking=False):
            return  # somebody is at it, perhaps this thread
        try:
            while self._fenced:
                # The first is passed first: each stands behind all work that was there before it.
                fence, slots = self._fenced[0]
                if not self._asked(fence.passed):
                    break
                while slots:
                    slots.popleft()()
                self._fenced.popleft()
            if self._waiting and len(self._fenced) < _MOST_FENCES and not self.broken:
                self._fence()
        finally:
            self._turn.release()

    def _fence(self) -> None:
        """Set a fence for those that wait now; what ends from here on needs another."""
        slots: deque[Free] = deque()
        for _ in range(len(self._waiting)):
            slots.append(self._waiting.popleft())
        fence = self._asked(self._set_fence)
        if fence:
            self._fenced.append((fence, slots))
        else:
            self._waiting.extendleft(reversed(slots))

    def _asked(self, question: Callable[[], _Answer]) -> _Answer | None:
        try:
            return question()
        except Exception:
            self.broken = True  # the device's own next call tells the user what is wrong with it
            return None


_all: weakref.WeakSet[Quarantine] = weakref.WeakSet()


def _forget_all() -> None:
    for quarantine in list(_all):
        quarantine.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
