"""What torch holds of devices, with a stand-in for torch.cuda that has several."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from feedrate.measure.device_memory import DeviceSight
from feedrate.memory_records import DeviceReading
from feedrate.records import DevicePeaks

MIB = 2**20


class FakeCuda:
    """Devices of which torch holds (allocated, reserved) bytes; the first is the current one.

    ``touched`` are those that were asked what makes CUDA begin with them.
    """

    def __init__(self, *held: tuple[int, int]) -> None:
        self.held = held
        self.touched: list[int] = []

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(self.held)

    def memory_allocated(self, device: int | None = None) -> int:
        return self.held[device or 0][0]

    def memory_reserved(self, device: int | None = None) -> int:
        return self.held[device or 0][1]

    def max_memory_allocated(self, device: int | None = None) -> int:
        return 2 * self.memory_allocated(device)

    def max_memory_reserved(self, device: int | None = None) -> int:
        return 2 * self.memory_reserved(device)

    def mem_get_info(self, device: int | None = None) -> tuple[int, int]:
        self.touched.append(device or 0)
        return 1000 + (device or 0), 5000

    def get_device_name(self, device: int | None = None) -> str:
        return f"Fake {device or 0}"

    def utilization(self, device: int | None = None) -> int:
        return 10 * (device or 0)


def sight(monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda) -> DeviceSight:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return DeviceSight()


def test_a_model_on_another_device_than_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda((0, 0), (3 * MIB, 4 * MIB))
    made = sight(monkeypatch, cuda)
    assert made.reading() == DeviceReading(allocated=3 * MIB, reserved=4 * MIB)
    assert made.free() == 1001
    assert cuda.touched == [1], "CUDA would begin with a device that nobody uses"
    assert made.peaks() == DevicePeaks(
        name="Fake 1", allocated_bytes=6 * MIB, reserved_bytes=8 * MIB, utilization=0.1
    )


def test_several_devices_are_added_up_and_the_fullest_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda((MIB, 2 * MIB), (0, 0), (3 * MIB, 4 * MIB), (MIB, MIB))
    made = sight(monkeypatch, cuda)
    assert made.reading() == DeviceReading(allocated=5 * MIB, reserved=7 * MIB)
    assert made.free() == 1002


def test_of_a_device_of_which_nothing_is_held_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda((0, 0), (0, 0))
    made = sight(monkeypatch, cuda)
    assert made.reading() == DeviceReading(allocated=0, reserved=0)
    assert made.free() is None
    assert cuda.touched == []


def test_without_torch_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    made = DeviceSight()
    assert (made.reading(), made.free(), made.peaks()) == (None, None, None)
