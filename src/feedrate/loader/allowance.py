"""How much memory batches in arenas may take while the loop keeps them.

A batch that is kept (in a list, a replay buffer) keeps its slot, and the arena grows. Past a share
of the free memory batches are copied into private memory as they arrive, and their slots are used
again: the worker never waits for a slot, and the arena does not grow without bound.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import deque
from typing import Any

from feedrate.host.files import SystemReader
from feedrate.host.limits import memory_limits
from feedrate.loader.arena import Segment
from feedrate.loader.leases import leases

_SHARE = 0.5
_LOOK_SECONDS = 1.0


class Allowance:
    """Counts the slots that this process uses, and decides which batches are copied."""

    def __init__(self, limit: int | None = None) -> None:
        self._fixed = limit
        self._limit = limit or 0
        self._looked_at = 0.0
        self._warned = False
        self.begin()

    def begin(self) -> None:
        """Count from nothing, as a forked process does: what it inherits is its parent's."""
        self._lock = threading.Lock()
        self._used = 0
        self._freed: deque[int] = deque()

    @property
    def used(self) -> int:
        """The bytes of all slots in use."""
        self._count(0)
        return self._used

    def _count(self, size: int) -> None:
        with self._lock:
            while self._freed:
                self._used -= self._freed.popleft()
            self._used += size

    def take(self, segment: Segment, index: int) -> Any:
        """Return the memory of a slot, or a copy of it where too much is kept already."""
        size = segment.slot_size
        if self.used + size > self._limit and not self._fits(size):
            copy = segment.copy(index)
            segment.free(index)
            return copy
        self._count(size)
        freed = self._freed

        def free() -> None:
            segment.free(index)
            freed.append(size)  # takes no lock: a batch may end while this thread holds it

        memory = segment.buffer(index)
        leases.add(memory, free)
        return memory

    def _fits(self, size: int) -> bool:
        """Look at the machine again, at most once a second."""
        now = time.monotonic()
        if self._fixed is None and (not self._looked_at or now - self._looked_at > _LOOK_SECONDS):
            self._looked_at = now
            free = memory_limits(SystemReader()).free
            self._limit = self.used + int(_SHARE * free) if free is not None else 2**62
            if self.used + size <= self._limit:
                return True
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the batches that are kept take {self.used / 2**20:.0f} MiB of shared memory; "
                "from here on they arrive as private copies, which takes longer. Keep fewer "
                "batches, or parts of them by clone()",
                stacklevel=2,
            )
        return False


allowance = Allowance()
os.register_at_fork(after_in_child=allowance.begin)
