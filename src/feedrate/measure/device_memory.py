"""What torch holds of a CUDA device and of pinned memory, and how busy the device is.

Read in the child, whose CUDA is never started by it: as long as the target has not used it there is
nothing to read.
"""

from __future__ import annotations

import sys
from typing import Any

from feedrate.memory_records import DeviceReading
from feedrate.records import DevicePeaks


class DeviceSight:
    """Looks at the current CUDA device, once the target uses it."""

    def __init__(self) -> None:
        self._shares: list[float] = []
        self._can_look = True

    def reading(self) -> DeviceReading | None:
        """Return torch's memory on the device, ``None`` where CUDA is not in use."""
        cuda = _cuda()
        if cuda is None:
            return None
        self._look(cuda)
        return DeviceReading(
            allocated=int(cuda.memory_allocated()),
            reserved=int(cuda.memory_reserved()),
            pinned=_pinned(cuda),
        )

    def free(self) -> int | None:
        """Return what the device has left, in bytes; ``None`` where CUDA is not in use."""
        cuda = _cuda()
        return None if cuda is None else int(cuda.mem_get_info()[0])

    def peaks(self) -> DevicePeaks | None:
        """Return torch's highest figures and the mean utilization seen."""
        cuda = _cuda()
        if cuda is None:
            return None
        return DevicePeaks(
            name=str(cuda.get_device_name()),
            allocated_bytes=int(cuda.max_memory_allocated()),
            reserved_bytes=int(cuda.max_memory_reserved()),
            utilization=sum(self._shares) / len(self._shares) if self._shares else None,
        )

    def _look(self, cuda: Any) -> None:
        """Read the utilization; stop asking once it turns out that it cannot be had."""
        if not self._can_look:
            return
        try:
            self._shares.append(cuda.utilization() / 100)
        except Exception:  # nvidia-ml-py is missing, or its library: its errors have no base
            self._can_look = False


def most_on_device() -> int | None:
    """Return the most bytes that torch has had on CUDA devices; ``None`` where there are none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    if not torch.cuda.is_initialized():
        return 0
    devices = range(torch.cuda.device_count())
    return sum(int(torch.cuda.max_memory_allocated(device)) for device in devices)


def _pinned(cuda: Any) -> int | None:
    """Return what torch's cache of pinned memory holds; torch tells it since version 2.7."""
    stats = getattr(cuda, "host_memory_stats", None)
    held = stats().get("allocated_bytes.current") if stats is not None else None
    return None if held is None else int(held)


def _cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
