"""Watching a child from outside: its memory, shared memory, descriptors, and its neighbours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from feedrate.host.files import SystemReader
from feedrate.host.limits import oom_kills, shm_space
from feedrate.host.load import CpuClock
from feedrate.host.memory import PacedSampler, TreeSampler
from feedrate.measure import wire
from feedrate.memory_records import MemorySnapshot, MemoryWatch
from feedrate.records import LoaderFacts, Peaks

_SOON_SECONDS = 0.3
"""How long after the first batch memory is read: all workers have then filled their queues."""


class Observer:
    """Watches one run, from before its child starts until after it has ended.

    The samples are paced so that they cost less than half a percent of the time; one is taken in
    any case, shortly after the first batch, when all workers are at work, or at the end of what
    is over sooner.
    """

    def __init__(self) -> None:
        self._reader = SystemReader()
        self._shm_before = _shm_used()
        self._kills_before = oom_kills(self._reader)
        self._kills_after: int | None = None
        self._cpu = CpuClock(self._reader)
        self._busy_before = self._cpu.busy_seconds()
        self._own_before = _own_cpu_seconds()
        self._other: float | None = None
        self._sampler: PacedSampler | None = None
        self._look_at: float | None = None

    def attach(self, pid: int, originals: Sequence[int] = ()) -> None:
        """Begin to sample the process and what it starts.

        ``originals`` are those that it is a copy of, if it is one.
        """
        self._sampler = PacedSampler(TreeSampler(pid, originals=originals))

    def batch_seen(self) -> None:
        """Plan the one sample that every run gets."""
        if self._look_at is None:
            self._look_at = time.monotonic() + _SOON_SECONDS

    def marked(self, mark: wire.Mark, reply: Callable[[bytes], None]) -> None:  # noqa: ARG002
        """Answer a child that waits to be looked at: nobody does, so it goes on."""
        reply(wire.GO)

    def ending(self) -> None:
        """Take the one sample that every run gets now, if it is still to come."""
        if self._look_at:
            self._look_at = time.monotonic()

    def poll(self) -> None:
        """Take what is due."""
        if self._sampler is None or self._look_at is None:
            return  # before the first batch there are no workers to see
        if not self._look_at:
            self._sampler.poll()
        elif time.monotonic() >= self._look_at:
            self._look_at = 0.0
            self._sampler.poll(force=True)

    def close(self, cpu_seconds_apart: float = 0.0) -> None:
        """Read what can only be read once the child has ended and was waited for.

        ``cpu_seconds_apart`` is what the child took and this process's own clocks do not have.
        """
        self._kills_after = oom_kills(self._reader)
        busy = self._cpu.busy_seconds()
        if busy is not None and self._busy_before is not None:
            own = _own_cpu_seconds() - self._own_before + cpu_seconds_apart
            self._other = max(0.0, busy - self._busy_before - own)

    def watch(self, used: wire.Used | None, facts: LoaderFacts | None) -> MemoryWatch | None:  # noqa: ARG002
        """Return what looks at its marks gave, ``None`` where it was not asked for."""
        return None

    def snapshots(self) -> tuple[MemorySnapshot, ...]:
        """Return the looks taken."""
        return self._sampler.snapshots() if self._sampler else ()

    def peaks(self) -> Peaks | None:
        """Return the highest values, ``None`` where the child ended before the first look."""
        return self._sampler.peaks(self._shm_before) if self._sampler else None

    def memory_kills(self) -> int:
        """Return how many processes of this group the kernel killed for memory meanwhile."""
        if self._kills_before is None or self._kills_after is None:
            return 0
        return self._kills_after - self._kills_before

    def other_cpu_seconds(self) -> float | None:
        """Return the CPU seconds that processes outside the run took on the usable CPUs."""
        return self._other


def _shm_used() -> int | None:
    space = shm_space()
    return None if space is None else space.total - space.free


def _own_cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all children that were waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
