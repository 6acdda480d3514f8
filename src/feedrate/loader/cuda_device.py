"""CUDA, as pinning needs it: memory pinned where it is, and fences behind all that was begun.

A copy may run on any stream: torch's default and pooled ones, streams of other libraries that were
made current, those of C++ code. To record an event on each would take over a hundred calls, and
could not be complete. The driver can record one event behind all work of a context, whatever its
stream (``cuCtxRecordEvent``, since CUDA 12.5): a fence is such an event for each device in use.
Without that function, as with ROCm, batches are pinned by torch's own thread. Since everything
depends on it, it is tried out once, on a stream of torch's pool.

What the driver documents: such an event breaks off the capture of a graph that is under way in
another thread. In the thread that captures, nothing is asked of CUDA at all.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import deque
from typing import Any

import torch

from feedrate.loader import torch_private

_PORTABLE = 1
"""cudaHostRegisterPortable: pinned for all devices."""
_TRIES = (1 << 20, 1 << 24, 1 << 28)
"""Cycles of work for the trial: long enough that it still runs when it is looked at."""


class CudaError(Exception):
    """A call to CUDA failed; it never leaves this package."""


class Driver:
    """The driver's functions that torch does not offer.

    Raises:
        OSError: there is no driver.
        AttributeError: it is older than CUDA 12.5.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        handle, number = ctypes.c_void_p, ctypes.c_int
        to = ctypes.POINTER
        self._record = library.cuCtxRecordEvent
        self._device = library.cuDeviceGet
        self._state = library.cuDevicePrimaryCtxGetState
        self._retain = library.cuDevicePrimaryCtxRetain
        self._release = library.cuDevicePrimaryCtxRelease_v2
        self._record.argtypes = (handle, handle)
        self._device.argtypes = (to(number), number)
        self._state.argtypes = (number, to(ctypes.c_uint), to(number))
        self._retain.argtypes = (to(handle), number)
        self._release.argtypes = (number,)
        self._contexts: dict[int, int] = {}

    def context(self, index: int) -> int | None:
        """Return the context that torch uses on a device; ``None`` while it has none.

        Raises:
            CudaError: the driver says so.
        """
        known = self._contexts.get(index)
        if known is not None:
            return known
        device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
        _check(self._device(ctypes.byref(device), index))
        _check(self._state(device, ctypes.byref(flags), ctypes.byref(active)))
        if not active.value:
            return None
        context = ctypes.c_void_p()
        _check(self._retain(ctypes.byref(context), device))
        _check(self._release(device))  # torch keeps it for as long as the process lives
        assert context.value is not None
        self._contexts[index] = context.value
        return context.value

    def record(self, context: int, event: int) -> None:
        """Set an event behind all work of a context.

        Raises:
            CudaError: the driver says so.
        """
        _check(self._record(context, event))


def _check(code: int) -> None:
    if code != 0:
        raise CudaError(f"the CUDA driver returned {code}")


class _CudaFence:
    """An event for each device in use."""

    def __init__(self, device: CudaDevice, events: list[tuple[int, Any]]) -> None:
        self._device = device
        self._events = events

    def passed(self) -> bool:
        """Tell whether all events have come to pass; they are used again then."""
        while self._events:
            index, event = self._events[-1]
            if not event.query():
                return False
            self._events.pop()
            self._device.give_back(index, event)
        return True


class CudaDevice:
    """All CUDA devices that this process sees.

    Args:
        driver: the driver's functions.
        cuda: ``torch.cuda``.
    """

    def __init__(self, driver: Driver, cuda: Any = torch.cuda) -> None:
        self._owner = os.getpid()
        self._driver = driver
        self._cuda = cuda
        self._count: int = cuda.device_count()
        self._events: list[deque[Any]] = [deque() for _ in range(self._count)]

    def ready(self) -> bool:
        """Tell whether this thread may call CUDA now."""
        return self._is_here() and not self._cuda.is_current_stream_capturing()

    def _is_here(self) -> bool:
        return os.getpid() == self._owner and not torch_private.interpreter_ends()

    def register(self, address: int, size: int) -> bool:
        """Pin memory in place; False where CUDA refuses."""
        with self._cuda.device(self._with_context()):
            if int(self._cuda.cudart().cudaHostRegister(address, size, _PORTABLE)) == 0:
                return True
            self._forget_error()
            return False

    def unregister(self, address: int) -> None:
        """Undo it, unless this process is a forked one or the interpreter ends."""
        if not self._is_here():
            return
        with self._cuda.device(self._with_context()):
            if int(self._cuda.cudart().cudaHostUnregister(address)) != 0:
                self._forget_error()

    def fence(self) -> _CudaFence:
        """Set a fence on all devices that this process uses.

        Raises:
            CudaError, RuntimeError: it cannot be set.
        """
        events = []
        for index in range(self._count):
            context = self._driver.context(index)
            if context is not None:
                event = self._event(index)
                self._driver.record(context, event.cuda_event)
                events.append((index, event))
        return _CudaFence(self, events)

    def give_back(self, index: int, event: Any) -> None:
        """Take back an event that is used no more."""
        self._events[index].append(event)

    def _event(self, index: int) -> Any:
        try:
            return self._events[index].pop()
        except IndexError:
            event = self._cuda.Event()
            event.record(self._cuda.current_stream(index))  # which is what creates it
            return event

    def _with_context(self) -> int:
        """Return a device in use: a call on any other would take its memory for a context."""
        current: int = self._cuda.current_device()
        in_use = (i for i in (current, *range(self._count)) if self._driver.context(i) is not None)
        return next(in_use, current)

    def _forget_error(self) -> None:
        """Take back CUDA's note of the last error, or torch's next kernel would be blamed for it.

        To launch one is what clears it: torch looks for an error after each.
        """
        try:
            torch.ones(1, device="cuda")
        except RuntimeError:
            return

    def is_usable(self) -> bool:
        """Try out all that pinning depends on; it waits until the devices are idle.

        Errors of torch pass through.
        """
        return self._pins() and self._fences_cover_every_stream()

    def _pins(self) -> bool:
        page = mmap.mmap(-1, mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        if not self.register(address, mmap.PAGESIZE):
            return False
        try:
            return torch.frombuffer(page, dtype=torch.uint8).is_pinned()
        finally:
            self.unregister(address)

    def _fences_cover_every_stream(self) -> bool:
        """Tell whether a fence waits for work on a stream that it was not told of."""
        stream = self._cuda.Stream()
        for cycles in _TRIES:
            with self._cuda.stream(stream):
                if not torch_private.keep_cuda_busy(cycles):
                    return False
            fence = self.fence()
            passed = fence.passed()
            ran_still = not stream.query()
            for index in range(self._count):
                if self._driver.context(index) is not None:
                    self._cuda.synchronize(index)
            if ran_still:
                return not passed and fence.passed()
        return False  # it cannot be told


def open_device() -> CudaDevice | None:
    """Return the CUDA devices; ``None`` where pinning in place cannot work on them."""
    if torch.version.cuda is None:
        return None
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        device = CudaDevice(Driver())
        return device if device.is_usable() else None
    except Exception:  # whatever it is, torch's own pinning meets it too, and says so
        return None
