"""Pinned without copying: what a device shall read fast is pinned where it is, in its slot.

torch copies each batch into pinned memory, in a thread. A slot that is pinned once, when it is
first used, needs neither copy nor thread. What it does need is that nobody fills it again while a
device still reads it: see `feedrate.loader.quarantine`.

The device is a protocol, so that all this is tested without one; `feedrate.loader.cuda_device` is
the one there is.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from typing import Any, Protocol

from feedrate.loader import torch_private
from feedrate.loader.allowance import allowance
from feedrate.loader.arena import Segment
from feedrate.loader.quarantine import Fence, Free, Quarantine

_PART_BYTES = 1 << 20
"""Slots are pinned one by one as they are first used, since pinned pages take memory whether they
are written or not; small ones so many at once, since every call costs time."""


class Device(Protocol):
    """What pinning asks of the devices, all of one kind, of this machine."""

    def ready(self) -> bool:
        """Tell whether it may be asked anything now, in this thread and process."""

    def register(self, address: int, size: int) -> bool:
        """Pin memory in place; False where that is refused."""

    def unregister(self, address: int) -> None:
        """Undo it; does nothing in a forked process, nor when the interpreter ends."""

    def fence(self) -> Fence:
        """Set a fence behind all that any device of the kind has been given to do."""


class _Mapping(mmap.mmap):
    """A mapping whose pinned parts cease to be pinned before it ceases to be mapped."""

    device: Device | None = None
    parts: dict[int, int]

    def __del__(self) -> None:
        if self.device is not None:
            for address in self.parts.values():
                self.device.unregister(address)


class PinnedSegment(Segment):
    """A segment whose slots are pinned as they are first used."""

    def __init__(
        self,
        number: int,
        descriptor: int,
        slot_size: int,
        slots: int,
        device: Device,
        let_go: Callable[[Free], None],
    ) -> None:
        super().__init__(number, descriptor, slot_size, slots)
        self._device = device
        self._let_go = let_go
        # Slots and what precedes them are whole pages, so parts share none.
        self._slots_of_part = max(1, _PART_BYTES // slot_size)

    def _map(self, descriptor: int, size: int) -> mmap.mmap:
        self._mapping = _Mapping(descriptor, size)
        self._mapping.parts = {}
        return self._mapping

    def free(self, index: int) -> None:
        """Let go of a slot: it is free once no device reads it."""
        self._let_go(functools.partial(super().free, index))

    def free_now(self, index: int) -> None:
        """Mark a slot as free that no device can have read."""
        super().free(index)

    def pin(self, index: int) -> bool:
        """Pin the part that a slot lies in, once; False where the device refuses."""
        part = index // self._slots_of_part
        if part in self._mapping.parts:
            return True
        first = part * self._slots_of_part
        start = self.offset(first)
        end = self.offset(min(first + self._slots_of_part, self.slots))
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping, start))
        if not self._device.register(address, end - start):
            return False
        self._mapping.parts[part] = address
        self._mapping.device = self._device
        return True


def _is_pinned(segment: PinnedSegment, index: int) -> bool:
    try:
        return segment.pin(index)
    except Exception:  # the device's own next call tells the user what is wrong with it
        return False


class Pinning:
    """Pins slots in place and holds them back until devices have read them; one for all loaders."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._quarantine = Quarantine(device.fence)
        self._loops: set[object] = set()
        self.refused = False

    @property
    def works(self) -> bool:
        """Whether a new loader may count on it."""
        return not (self.refused or self._quarantine.broken)

    @property
    def held_back(self) -> int:
        """How many slots wait for a device."""
        return len(self._quarantine)

    def begin(self) -> object:
        """Take note that a loop begins to read; return what `end` is to be given."""
        loop = object()
        self._loops.add(loop)
        return loop

    def end(self, loop: object) -> None:
        """Take note that a loop reads no more."""
        self._loops.discard(loop)
        self.settle()

    def segment(self, number: int, descriptor: int, slot_size: int, slots: int) -> Segment:
        """Return a segment whose slots can be pinned.

        Raises:
            OSError: it cannot be mapped.
        """
        return PinnedSegment(number, descriptor, slot_size, slots, self._device, self._let_go)

    def take(self, segment: Segment, index: int) -> Any:
        """Return the memory of a slot, pinned if the device agrees; see `Allowance.take`."""
        assert isinstance(segment, PinnedSegment)
        if self._device.ready():
            self._quarantine.settle()
            if self.works and not _is_pinned(segment, index):
                self.refused = True
        if self._quarantine.broken:
            copy = segment.copy(index)
            segment.free_now(index)
            return copy
        return allowance.take(segment, index)

    def _let_go(self, free: Free) -> None:
        self._quarantine.add(free)
        if not self._loops:  # there is no next batch with which to look
            self.settle()

    def settle(self) -> None:
        """Free what devices have read, if they may be asked."""
        if self._device.ready():
            self._quarantine.settle()


def find_pinning(device: str | None) -> Pinning | None:
    """Return what pins in place for a kind of device; ``None`` where torch's own way is to be used.

    Args:
        device: the kind as torch's loader names it; ``None`` or empty for the only one there is.
    """
    kind = (device or "cuda").partition(":")[0]
    if kind != "cuda" or not torch_private.can_use_cuda():
        return None
    pinning = _cuda()
    return pinning if pinning is not None and pinning.works else None


@functools.cache
def _cuda() -> Pinning | None:
    from feedrate.loader.cuda_device import open_device

    device = open_device()
    return None if device is None else Pinning(device)
