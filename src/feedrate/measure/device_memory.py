"""What torch holds of CUDA devices and of pinned memory, and how busy they are.

Read in the child, whose CUDA is never started by it: as long as the target has not used it there is
nothing to read. Nor is a device's that the target does not use: to ask it for its free memory would
take some hundred mebibytes of it, as torch's own counts do not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from feedrate.memory_records import DeviceReading
from feedrate.records import DevicePeaks


class DeviceSight:
    """Looks at the CUDA devices that the target uses, once it does."""

    def __init__(self) -> None:
        self._shares: list[float] = []
        self._can_look = True

    def reading(self) -> DeviceReading | None:
        """Return torch's memory on all devices together, ``None`` where CUDA is not in use."""
        cuda = _cuda()
        if cuda is None:
            return None
        used = _each(cuda, cuda.memory_reserved)
        self._look(cuda, _fullest(used))
        return DeviceReading(
            allocated=sum(int(cuda.memory_allocated(device)) for device in used),
            reserved=sum(used.values()),
            pinned=_pinned(cuda),
        )

    def free(self) -> int | None:
        """Return what the device has left of which torch holds most; ``None`` where it holds none.

        In bytes.
        """
        cuda = _cuda()
        fullest = None if cuda is None else _fullest(_each(cuda, cuda.memory_reserved))
        return None if fullest is None else int(cuda.mem_get_info(fullest)[0])

    def peaks(self) -> DevicePeaks | None:
        """Return torch's highest figures on all devices together, and the mean utilization seen.

        With the name of the one of which it held most.
        """
        cuda = _cuda()
        if cuda is None:
            return None
        used = _each(cuda, cuda.max_memory_reserved)
        return DevicePeaks(
            name=str(cuda.get_device_name(_fullest(used))),
            allocated_bytes=sum(int(cuda.max_memory_allocated(device)) for device in used),
            reserved_bytes=sum(used.values()),
            utilization=sum(self._shares) / len(self._shares) if self._shares else None,
        )

    def _look(self, cuda: Any, device: int | None) -> None:
        """Read the utilization; stop asking once it turns out that it cannot be had."""
        if not self._can_look:
            return
        try:
            self._shares.append(cuda.utilization(device) / 100)
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


def _each(cuda: Any, held: Callable[[int], Any]) -> dict[int, int]:
    """Return what torch holds of each device of which it holds anything."""
    every = {device: int(held(device)) for device in range(cuda.device_count())}
    return {device: count for device, count in every.items() if count}


def _fullest(used: dict[int, int]) -> int | None:
    return max(used, key=lambda device: used[device], default=None)


def _pinned(cuda: Any) -> int | None:
    """Return what torch's cache of pinned memory holds; torch tells it since version 2.7."""
    stats = getattr(cuda, "host_memory_stats", None)
    held = stats().get("allocated_bytes.current") if stats is not None else None
    return None if held is None else int(held)


def _cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
