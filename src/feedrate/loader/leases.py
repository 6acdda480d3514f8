"""Leases: a forked process may look at the batches that were alive when it was forked.

Their slots must not be filled again while it lives, even when the loop has long let go of them. At
a fork all living batches are marked, and a pipe is kept whose other end only the child has: it
closes when the child is gone, however it ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import weakref
from collections.abc import Callable
from typing import Any

Free = Callable[[], None]


class Leases:
    """What forked processes hold, for all arenas of this process."""

    def __init__(self) -> None:
        self._living: weakref.WeakSet[Any] = weakref.WeakSet()
        self._numbers = itertools.count()
        self._pending: tuple[int, int] | None = None
        self._pipes: dict[int, int] = {}
        self._marked: dict[int, int] = {}
        self._deferred: list[tuple[set[int], Free]] = []

    def add(self, memory: Any, free: Free) -> None:
        """Count a batch's memory among the living; ``free`` is called when nobody can see it.

        ``memory`` must call its attribute ``release`` when it ends.
        """
        marks: set[int] = set()
        memory.marks = marks
        memory.release = lambda: self._end(marks, free)
        self._living.add(memory)

    def _end(self, marks: set[int], free: Free) -> None:
        for number in marks:
            if number in self._marked:
                self._marked[number] -= 1
        if not marks:
            free()
            return
        self._deferred.append((marks, free))
        self.settle()

    def settle(self) -> None:
        """Free what children held that have ended since."""
        if not (self._pipes or self._deferred):
            return
        poll = select.poll()
        for reads in self._pipes.values():
            poll.register(reads, select.POLLIN)
        ended = {reads for reads, _ in poll.poll(0)}
        waited_for = set().union(*(held for held, _ in self._deferred))
        for number, reads in list(self._pipes.items()):
            # Nobody needs to know of a child that holds nothing more.
            if reads in ended or (self._marked[number] == 0 and number not in waited_for):
                os.close(reads)
                del self._pipes[number], self._marked[number]
        still = []
        for held, free in self._deferred:
            held &= self._pipes.keys()  # noqa: PLW2901 - the set itself is narrowed
            if held:
                still.append((held, free))
            else:
                free()
        self._deferred = still

    def before_fork(self) -> None:
        """Make the pipe, if there is anything to protect."""
        self.settle()
        self._pending = os.pipe() if len(self._living) else None

    def in_parent(self) -> None:
        """Mark what the child can see."""
        if self._pending is None:
            return
        reads, writes = self._pending
        self._pending = None
        os.close(writes)
        number = next(self._numbers)
        living = list(self._living)
        self._pipes[number] = reads
        self._marked[number] = len(living)
        for memory in living:
            memory.marks.add(number)

    def in_child(self) -> None:
        """Keep the other end open for as long as this process lives; free nobody's slots."""
        for memory in list(self._living):
            memory.release = None
        self._living.clear()
        self._deferred = []
        for reads in self._pipes.values():
            with contextlib.suppress(OSError):
                os.close(reads)
        self._pipes, self._marked = {}, {}
        if self._pending is not None:
            os.close(self._pending[0])
            self._pending = None


leases = Leases()
os.register_at_fork(
    before=leases.before_fork,
    after_in_parent=leases.in_parent,
    after_in_child=leases.in_child,
)
