"""What is asked of CUDA, on a fake of torch's module and of the driver."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from feedrate.loader import cuda_device, torch_private
from feedrate.loader.cuda_device import CudaDevice, CudaError, Driver

pytestmark = pytest.mark.torch

ERROR_NOT_PERMITTED = 800


class Stream:
    """Work that ends when the device is idle, or at the latest when it was looked at so often."""

    def __init__(self) -> None:
        self.looks_left = 0

    def query(self) -> bool:
        self.looks_left = max(0, self.looks_left - 1)
        return self.looks_left == 0


class Event:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda_event = 0
        self._cuda = cuda
        self.behind: list[Stream] = []

    def record(self, stream: Stream) -> None:
        self.cuda_event = self._cuda.number(self)
        self.behind = [stream]

    def query(self) -> bool:
        return all(stream.looks_left == 0 for stream in self.behind)


class FakeCuda:
    """As much of ``torch.cuda`` as is used; two devices, of which the second is in use."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[tuple[Any, ...]] = []
        self.streams = {index: [Stream()] for index in (0, 1)}
        self.events: list[Event] = []
        self.capturing = False
        self.on = 0
        self.busy: Stream | None = None

    def number(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    def device_count(self) -> int:
        return 2

    def current_device(self) -> int:
        return self.on

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        before, self.on = self.on, index
        yield
        self.on = before

    def current_stream(self, index: int) -> Stream:
        return self.streams[index][0]

    def Stream(self) -> Stream:  # noqa: N802 - as torch has it
        self.streams[1].append(Stream())
        return self.streams[1][-1]

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.busy = stream
        yield

    def Event(self) -> Event:  # noqa: N802 - as torch has it
        return Event(self)

    def synchronize(self, index: int) -> None:
        self.calls.append(("synchronize", index))
        for stream in self.streams[index]:
            stream.looks_left = 0

    def cudart(self) -> FakeCuda:
        return self

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        self.calls.append(("register", self.on, size, flags))
        return self.code

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802
        self.calls.append(("unregister", self.on))
        return self.code


class FakeDriver:
    """Sets events behind all streams of a device, or only behind the first, as it must not."""

    def __init__(self, cuda: FakeCuda, *, blind: bool = False) -> None:
        self._cuda = cuda
        self._blind = blind
        self.in_use = {1}
        self.records = 0

    def context(self, index: int) -> int | None:
        return 100 + index if index in self.in_use else None

    def record(self, context: int, event: int) -> None:
        self.records += 1
        streams = self._cuda.streams[context - 100]
        self._cuda.events[event - 1].behind = streams[:1] if self._blind else list(streams)


def make(cuda: FakeCuda, **arguments: Any) -> tuple[CudaDevice, FakeDriver]:
    driver = FakeDriver(cuda, **arguments)
    return CudaDevice(driver, cuda), driver  # type: ignore[arg-type]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were launched so that an error is forgotten."""
    kernels: list[str] = []

    def ones(count: int, device: str) -> None:
        kernels.append(device)
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(cuda_device.torch, "ones", ones)
    return kernels


def test_memory_is_pinned_on_a_device_in_use(launched: list[str]) -> None:
    cuda = FakeCuda()
    device, _ = make(cuda)
    assert device.register(4096, 8192)
    device.unregister(4096)
    assert cuda.calls == [("register", 1, 8192, 1), ("unregister", 1)]
    assert cuda.on == 0
    assert launched == []


def test_a_refusal_is_told_and_forgotten(launched: list[str]) -> None:
    cuda = FakeCuda(code=2)
    device, _ = make(cuda)
    assert not device.register(4096, 8192)
    assert launched == ["cuda"]
    device.unregister(4096)  # in a finalizer, where nobody could take an error
    assert launched == ["cuda"] * 2


def test_a_fence_is_an_event_on_each_device_in_use_and_events_are_used_again() -> None:
    cuda = FakeCuda()
    device, driver = make(cuda)
    busy = cuda.Stream()
    busy.looks_left = 5
    fence = device.fence()
    assert driver.records == 1
    assert not fence.passed()
    busy.looks_left = 0
    assert fence.passed()
    assert fence.passed()
    driver.in_use = {0, 1}
    assert device.fence().passed()
    assert driver.records == 3
    assert len(cuda.events) == 2
    assert device.fence().passed()
    assert len(cuda.events) == 2


def test_nothing_is_asked_during_a_capture_nor_in_a_forked_process() -> None:
    cuda = FakeCuda()
    device, _ = make(cuda)
    assert device.ready()
    cuda.capturing = True
    assert not device.ready()
    cuda.capturing = False
    pid = os.fork()
    if pid == 0:
        ready = device.ready()
        device.unregister(4096)
        os._exit(0 if not ready and cuda.calls == [] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    ("looks", "blind", "usable"),
    [
        (3, False, True),  # work that is seen to run, and a fence that waits for it
        (3, True, False),  # a fence that does not
        (0, False, False),  # work that is done before anything can be told
    ],
)
def test_fences_are_tried_out(
    monkeypatch: pytest.MonkeyPatch, looks: int, blind: bool, usable: bool
) -> None:
    cuda = FakeCuda()
    device, _ = make(cuda, blind=blind)

    def keep_busy(cycles: int) -> bool:
        assert cuda.busy is not None
        cuda.busy.looks_left = looks
        return True

    monkeypatch.setattr(torch_private, "keep_cuda_busy", keep_busy)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    assert device.is_usable() is usable


def test_memory_that_torch_does_not_take_for_pinned_is_of_no_use() -> None:
    if torch.cuda.is_available():
        pytest.skip("here torch would ask the true CUDA about memory that only a fake has pinned")
    cuda = FakeCuda()
    device, _ = make(cuda)
    assert not device.is_usable()
    assert [call[0] for call in cuda.calls] == ["register", "unregister"]


class Library:
    """A driver as ctypes loads it: functions that answer with codes and write to pointers."""

    def __init__(self, active: int = 1, code: int = 0) -> None:
        self.calls: list[str] = []

        def function(name: str, write: Any = None) -> Any:
            def call(*arguments: Any) -> int:
                self.calls.append(name)
                if write is not None:
                    write(*arguments)
                return code if name == "cuCtxRecordEvent" else 0

            return call

        self.cuCtxRecordEvent = function("cuCtxRecordEvent")
        self.cuDeviceGet = function("cuDeviceGet", _write)
        self.cuDevicePrimaryCtxGetState = function(
            "cuDevicePrimaryCtxGetState", lambda device, flags, to: _write(to, active)
        )
        self.cuDevicePrimaryCtxRetain = function(
            "cuDevicePrimaryCtxRetain", lambda to, device: _write(to, 4321)
        )
        self.cuDevicePrimaryCtxRelease_v2 = function("cuDevicePrimaryCtxRelease_v2")


def _write(to: Any, value: int) -> None:
    to._obj.value = value


def driver_of(library: Any, monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    return Driver()


def test_the_driver_tells_the_context_of_a_device_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    driver = driver_of(library, monkeypatch)
    assert driver.context(1) == 4321
    retains = library.calls.count("cuDevicePrimaryCtxRetain")
    assert retains == library.calls.count("cuDevicePrimaryCtxRelease_v2") == 1
    assert driver.context(1) == 4321
    assert library.calls.count("cuDevicePrimaryCtxRetain") == 1
    assert driver_of(Library(active=0), monkeypatch).context(0) is None


def test_codes_of_the_driver_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    driver_of(Library(), monkeypatch).record(4321, 7)
    driver = driver_of(Library(code=ERROR_NOT_PERMITTED), monkeypatch)
    with pytest.raises(CudaError, match="800"):
        driver.record(4321, 7)


def test_with_an_older_driver_or_none_torch_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        cuDeviceGet = None  # noqa: N815 - the driver's name

    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Older())
    assert cuda_device.open_device() is None

    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert cuda_device.open_device() is None
    monkeypatch.setattr(torch.version, "cuda", None)  # as with ROCm
    assert cuda_device.open_device() is None
