"""What a `MemoryGuard` sees of memory, and the little that it can do: the edge to the system."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.limits import MemoryLimits, memory_limits
from feedrate.host.memory import TreeSampler, parse_smaps_rollup
from feedrate.memory_records import DeviceReading, MemorySnapshot


class MemorySight(Protocol):
    """Reads memory. Only `tree` takes more than a fraction of a millisecond."""

    def limits(self) -> MemoryLimits:
        """Return what is free, and what bounds it."""

    def own_bytes(self) -> int | None:
        """Return what only this process holds, ``None`` where the platform does not tell."""

    def tree(self, at: float) -> MemorySnapshot | None:
        """Return the memory of this process and its workers; some milliseconds for each."""

    def device(self) -> DeviceReading | None:
        """Return torch's memory on the device in use, ``None`` where none is."""

    def empty_device_cache(self) -> None:
        """Give the device back what no tensor holds."""


class SystemSight:
    """Reads this machine's memory, of this process and those that it started."""

    def __init__(self, reader: ProcReader | None = None) -> None:
        self._reader = reader or SystemReader()

    def limits(self) -> MemoryLimits:
        """Return what is free, and what bounds it."""
        return memory_limits(self._reader)

    def own_bytes(self) -> int | None:
        """Return what only this process holds, ``None`` where the platform does not tell."""
        try:
            return parse_smaps_rollup(self._reader.read("/proc/self/smaps_rollup") or "").uss
        except ValueError:
            return None

    def tree(self, at: float) -> MemorySnapshot | None:
        """Return the memory of this process and its workers."""
        return TreeSampler(os.getpid(), self._reader).sample(at)

    def device(self) -> DeviceReading | None:
        """Return torch's memory on the current CUDA device, ``None`` where CUDA is not in use."""
        cuda = _cuda()
        if cuda is None:
            return None
        return DeviceReading(allocated=cuda.memory_allocated(), reserved=cuda.memory_reserved())

    def empty_device_cache(self) -> None:
        """Give the device back what no tensor holds; nothing where CUDA is not in use."""
        cuda = _cuda()
        if cuda is not None:
            cuda.empty_cache()


def _cuda() -> Any:
    """Return ``torch.cuda`` if this process uses it already; looking must not start it."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
