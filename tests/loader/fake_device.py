"""A device that copies when it is told to: what it reads then must be what was there when asked."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Copy:
    """A copy that is under way: of these bytes, wherever they are when it runs."""

    address: int
    size: int
    expected: bytes


@dataclass
class Stream:
    """Work in order; ``given`` and ``done`` count it."""

    work: deque[Copy] = field(default_factory=deque)
    given: int = 0
    done: int = 0


class FakeFence:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._marks = [stream.given for stream in device.streams]

    def passed(self) -> bool:
        self._device.asked()
        marks = zip(self._device.streams, self._marks, strict=True)
        return all(stream.done >= mark for stream, mark in marks)


class FakeDevice:
    """Fulfils `feedrate.loader.pinning.Device`.

    Args:
        most: how many bytes it pins before it refuses.
    """

    def __init__(self, streams: int = 3, most: int = 2**62) -> None:
        self.streams = [Stream() for _ in range(streams)]
        self.most = most
        self.capturing = False
        self.fails = False
        self.registered: dict[int, int] = {}
        self.registrations = 0
        self.fences = 0
        self.wrong: list[str] = []
        self._owner = os.getpid()

    # What pinning asks

    def asked(self) -> None:
        """Note what a device must not be asked."""
        if os.getpid() != self._owner:
            self.wrong.append("asked in a forked process")
        if self.capturing:
            self.wrong.append("asked during a capture")
        if self.fails:
            raise RuntimeError("CUDA error")

    def ready(self) -> bool:
        return os.getpid() == self._owner and not self.capturing

    def register(self, address: int, size: int) -> bool:
        self.asked()
        if address % mmap.PAGESIZE or size % mmap.PAGESIZE or size <= 0:
            self.wrong.append("registered what is no whole pages")
        if any(address < a + s and a < address + size for a, s in list(self.registered.items())):
            self.wrong.append("registered twice")
        if sum(list(self.registered.values())) + size > self.most:
            return False
        self.registered[address] = size
        self.registrations += 1
        return True

    def unregister(self, address: int) -> None:
        if os.getpid() != self._owner:
            return
        size = self.registered.pop(address)
        for stream in self.streams:
            if any(address <= copy.address < address + size for copy in stream.work):
                self.wrong.append("unregistered what is being read")

    def fence(self) -> FakeFence:
        self.asked()
        self.fences += 1
        return FakeFence(self)

    # What a loop does with it

    def is_pinned(self, tensor: Any) -> bool:
        start, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        return any(a <= start and end <= a + s for a, s in list(self.registered.items()))

    def copy(self, tensor: Any, stream: int) -> None:
        """Begin to copy a contiguous tensor, as ``to(non_blocking=True)`` does if it is pinned."""
        if not self.is_pinned(tensor):
            return  # such a copy is complete when the call returns
        address, size = tensor.data_ptr(), tensor.nbytes
        expected = ctypes.string_at(address, size)
        self.streams[stream].work.append(Copy(address, size, expected))
        self.streams[stream].given += 1

    def run(self, stream: int, count: int) -> None:
        """Complete the next ``count`` pieces of a stream's work."""
        lane = self.streams[stream]
        for _ in range(min(count, len(lane.work))):
            copy = lane.work.popleft()
            if not any(
                a <= copy.address and copy.address + copy.size <= a + s
                for a, s in list(self.registered.items())
            ):
                self.wrong.append("read what is not pinned any more")
            elif ctypes.string_at(copy.address, copy.size) != copy.expected:
                self.wrong.append("read what another batch was written over")
            lane.done += 1

    def finish(self) -> None:
        """Complete everything."""
        for number in range(len(self.streams)):
            self.run(number, 2**31)


class FakePinning:
    """What stands for `Tensor.pin_memory`: copies what is not pinned, and counts it."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._kept: list[Any] = []

    @property
    def copied(self) -> int:
        """How many tensors were."""
        return len(self._kept)

    @property
    def addresses(self) -> set[int]:
        """Where the copies are; they stay."""
        return {copy.data_ptr() for copy in self._kept}

    def __call__(self, tensor: Any, device: Any = None) -> Any:
        if tensor.numel() == 0 or self._device.is_pinned(tensor):
            return tensor
        copy = tensor.clone()
        self._kept.append(copy)
        self._device.registered[copy.data_ptr()] = copy.nbytes
        return copy
