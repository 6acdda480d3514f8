"""Leases: a forked process may look at the batches that were alive when it was forked.

Their slots must not be filled again while it lives, even when the loop has long let go of them.
Forks are numbered, and each batch knows the number of the first fork after it came: it was seen by
all from there on until it ends. Of each fork a pipe is kept whose other end only the child has: it
closes when the child is gone, however it ended.

Batches end where Python lets go of them: in any thread, in the middle of anything, in these very
methods too. So nothing here waits for a lock that such an end might need.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Free = Callable[[], None]

_LOOK_SECONDS = 0.1
"""How often new batches make it look whether children have ended that hold slots."""


@dataclass(slots=True)
class _Fork:
    """A fork under way in one thread: its pipe, and whether there is anything to protect."""

    number: int
    writes: int | None
    holds: bool


class Leases:
    """What forked processes hold, for all arenas of this process."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._generation = object()
        self._keys = itertools.count()
        self._numbers = itertools.count()
        self._next = 0  # the number of the next fork, or a lower one: that only keeps more
        self._living: dict[int, int] = {}
        self._pipes: dict[int, int | None] = {}
        self._forks: dict[int, _Fork] = {}
        self._deferred: deque[tuple[set[int], Free]] = deque()
        self._settling = threading.Lock()
        self._looked_at = 0.0

    def add(self, memory: Any, free: Free) -> None:
        """Count a batch's memory among the living; ``free`` is called when nobody can see it.

        ``memory`` must call its attribute ``release`` when it ends.
        """
        key = next(self._keys)
        self._living[key] = first = self._next
        # A fork that is under way may come to its end after this batch is there for all to see. It
        # is looked for when the batch is among the living, which the fork looks at when it is here.
        for fork in self._forks.copy().values() if self._forks else ():
            self._living[key] = first = min(first, fork.number)
            fork.holds = True
        memory.release = functools.partial(self._end, self._generation, key, free)
        if self._deferred and time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self.settle()

    def _end(self, generation: object, key: int, free: Free) -> None:
        if generation is not self._generation:
            return  # a child's copy: it frees nobody's slots
        first = self._living.pop(key)
        seen_by = {number for number in self._pipes.copy() if number >= first}
        if not seen_by:
            free()
            return
        self._deferred.append((seen_by, free))
        self.settle()

    def settle(self) -> None:
        """Free what children held that have ended since, unless that is being done already."""
        if (self._pipes or self._deferred) and self._settling.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._settling.release()

    def _settle(self) -> None:
        self._looked_at = time.monotonic()
        poll = select.poll()
        pipes = {number: end for number, end in self._pipes.copy().items() if end is not None}
        for end in pipes.values():
            poll.register(end, select.POLLIN)
        ended = {end for end, _ in poll.poll(0)}
        for number, end in pipes.items():
            if end in ended:
                self._forget(number)
        for _ in range(len(self._deferred)):
            seen_by, free = self._deferred.popleft()
            if seen_by.isdisjoint(self._pipes):
                free()
            else:
                self._deferred.append((seen_by, free))

    def _forget(self, number: int) -> None:
        end = self._pipes.pop(number, None)
        if end is not None:
            os.close(end)

    def before_fork(self) -> None:
        """Make the pipe: what lives from here on until the fork, the child will see."""
        self.settle()
        reads: int | None
        writes: int | None
        try:
            reads, writes = os.pipe()
        except OSError:  # no descriptors: it is never known to end, and its slots stay as they are
            reads = writes = None
        fork = _Fork(next(self._numbers), writes, holds=False)
        self._pipes[fork.number] = reads
        self._forks[threading.get_ident()] = fork
        self._next = fork.number + 1
        if self._living:
            fork.holds = True

    def in_parent(self) -> None:
        """Leave the writing end to the child alone."""
        fork = self._forks.pop(threading.get_ident())
        if fork.writes is not None:
            os.close(fork.writes)
        if not fork.holds:
            self._forget(fork.number)

    def in_child(self) -> None:
        """Keep the writing end open for as long as this process lives, and begin anew."""
        self._forks.pop(threading.get_ident(), None)
        others = (fork.writes for fork in self._forks.values())
        for end in (*self._pipes.values(), *others):
            if end is not None:
                with contextlib.suppress(OSError):
                    os.close(end)
        self._begin()


leases = Leases()
os.register_at_fork(
    before=leases.before_fork,
    after_in_parent=leases.in_parent,
    after_in_child=leases.in_child,
)
