"""The device a child measures on, with a stand-in for torch.cuda."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from feedrate.errors import UsageError
from feedrate.measure.device import (
    Cpu,
    Cuda,
    OtherAccelerator,
    accelerator_name,
    move_tensors,
    open_device,
)
from feedrate.records import DevicePeaks

pytestmark = pytest.mark.torch

# A device that every torch has, and that is not where tensors are made: moves can be seen.
META = torch.device("meta")
GPU = torch.device("cuda", 0)
HAS_CUDA = torch.cuda.is_available()
Pair = namedtuple("Pair", ["image", "label"])


class NVMLError(Exception):
    """As pynvml's: of no class that Python's errors share."""


NVMLError.__module__ = "pynvml"


class FakeCuda:
    """Counts what it is asked, and plays a script of utilizations."""

    def __init__(self, *utilizations: int | Exception) -> None:
        self.utilizations = list(utilizations)
        self.asked = 0
        self.synchronized: list[torch.device] = []

    def get_device_name(self, device: torch.device) -> str:
        return "Fake H9000"

    def synchronize(self, device: torch.device) -> None:
        self.synchronized.append(device)

    def utilization(self, device: torch.device) -> int:
        self.asked += 1
        answer = self.utilizations.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def max_memory_allocated(self, device: torch.device) -> int:
        return 3 * 2**20

    def max_memory_reserved(self, device: torch.device) -> int:
        return 4 * 2**20


def test_peaks_and_the_mean_of_the_readings():
    cuda = FakeCuda(50, 100, 30)
    device = Cuda(GPU, cuda)
    assert device.name == "Fake H9000"
    for _ in range(3):
        device.look()
    assert device.peaks() == DevicePeaks(
        name="Fake H9000",
        allocated_bytes=3 * 2**20,
        reserved_bytes=4 * 2**20,
        utilization=0.6,
    )


def test_synchronizing_waits_for_that_very_device():
    cuda = FakeCuda()
    Cuda(torch.device("cuda", 1), cuda).synchronize()
    assert cuda.synchronized == [torch.device("cuda", 1)]


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'pynvml'"),
        RuntimeError("NVML not supported"),
        OSError("libnvidia-ml.so"),
        AttributeError("utilization"),
        NVMLError("not permitted"),
    ],
)
def test_utilization_that_cannot_be_had_is_asked_for_once(error: Exception):
    cuda = FakeCuda(error, 100)
    device = Cuda(GPU, cuda)
    device.look()
    device.look()
    assert cuda.asked == 1
    peaks = device.peaks()
    assert peaks is not None
    assert peaks.utilization is None
    assert peaks.allocated_bytes == 3 * 2**20


def test_readings_from_before_it_failed_are_kept():
    device = Cuda(GPU, FakeCuda(40, RuntimeError("gone")))
    device.look()
    device.look()
    peaks = device.peaks()
    assert peaks is not None
    assert peaks.utilization == 0.4


def test_other_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        Cuda(GPU, FakeCuda(ZeroDivisionError())).look()


def test_the_cpu_has_nothing_to_wait_for_and_nothing_to_tell():
    device = Cpu()
    batch = object()
    device.synchronize()
    device.look()
    assert device.move(batch) is batch
    assert device.peaks() is None
    assert device.name is None


def test_another_accelerator_is_synchronized_by_torchs_module_for_it(
    monkeypatch: pytest.MonkeyPatch,
):
    calls: list[str] = []
    monkeypatch.setattr(
        torch, "mps", SimpleNamespace(synchronize=lambda: calls.append("mps")), raising=False
    )
    device = OtherAccelerator(torch.device("mps"))
    device.synchronize()
    device.look()
    assert calls == ["mps"]
    assert device.peaks() == DevicePeaks(name="mps")
    moved = OtherAccelerator(META).move([torch.zeros(2)])
    assert moved[0].device == META


@pytest.mark.skipif(HAS_CUDA, reason="needs a machine without CUDA")
@pytest.mark.parametrize("wish", ["cuda", "cuda:1"])
def test_cuda_where_there_is_none_is_refused_in_one_sentence(wish: str):
    with pytest.raises(UsageError) as caught:
        open_device(wish)
    sentence = str(caught.value)
    assert sentence.startswith(f"device {wish} cannot be used here (")
    assert sentence.endswith("; try auto")
    assert "\n" not in sentence
    assert len(sentence) < 200


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ("nonsense", "torch knows no such device; try auto or cpu"),
        ("cpu:x", "torch knows no such device; try auto or cpu"),
        ("", "torch knows no such device; try auto or cpu"),
        ("meta", "is none that work can be waited for on; try auto"),
        ("hpu", "is none that work can be waited for on; try auto"),
    ],
)
def test_devices_that_are_none_are_refused(wish: str, says: str):
    with pytest.raises(UsageError, match=says):
        open_device(wish)


def test_an_error_without_words_is_refused_too(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(torch, "zeros", fails)
    with pytest.raises(UsageError, match=r"cannot be used here \(AssertionError\)"):
        open_device("cuda")


def test_auto_takes_the_best_there_is(monkeypatch: pytest.MonkeyPatch):
    assert isinstance(open_device("cpu"), Cpu)
    if not HAS_CUDA:
        assert isinstance(open_device("auto"), Cpu)
    opened: list[str] = []
    monkeypatch.setattr(torch, "zeros", lambda *_, device: opened.append(device.type))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Fake H9000")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert isinstance(open_device("auto"), Cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert isinstance(open_device("auto"), OtherAccelerator)
    assert opened == ["cuda", "mps"]


def test_the_accelerators_name(monkeypatch: pytest.MonkeyPatch):
    def available(*kinds: str) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)
        for kind in ("mps", "xpu"):
            module = getattr(torch, kind)
            if hasattr(module, "is_available"):
                monkeypatch.setattr(module, "is_available", lambda kind=kind: kind in kinds)

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Fake H9000")
    for kinds, name in (
        ((), None),
        (("mps",), "mps"),
        (("xpu",), "xpu"),
        (("cuda", "xpu"), "Fake H9000"),
    ):
        available(*kinds)
        assert accelerator_name() == name


def test_older_torch_tells_of_mps_in_one_place_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "mps", SimpleNamespace(), raising=False)
    monkeypatch.setattr(torch, "xpu", SimpleNamespace(), raising=False)
    assert accelerator_name() is None


class MovesItself:
    def __init__(self, place: object = None) -> None:
        self.place = place

    def to(self, device: torch.device) -> MovesItself:
        return MovesItself(device)


class PinsItself:
    def __init__(self, inputs: torch.Tensor) -> None:
        self.inputs = inputs

    def pin_memory(self) -> PinsItself:
        return self


class TokenizerBatch(UserDict):  # type: ignore[type-arg]
    def to(self, device: torch.device) -> TokenizerBatch:
        self.data = {key: value.to(device) for key, value in self.data.items()}
        return self


@dataclasses.dataclass(frozen=True)
class Sample:
    image: torch.Tensor
    name: str = "a"


class Shape(tuple):
    """A tuple that cannot be made of its items."""

    __slots__ = ()

    def __new__(cls) -> Shape:
        return super().__new__(cls, (torch.zeros(1), 2))


def test_tensors_are_moved_wherever_they_are():
    batch = {
        "image": torch.zeros(2),
        "nested": [torch.zeros(1), (torch.zeros(1), "text")],
        "ordered": OrderedDict(a=torch.zeros(1)),
        "pair": Pair(torch.zeros(1), 5),
        "none": None,
    }
    moved = move_tensors(batch, META)
    assert moved["image"].device == META
    assert [moved["nested"][0].device, moved["nested"][1][0].device] == [META, META]
    assert moved["nested"][1][1] == "text"
    assert isinstance(moved["nested"][1], tuple)
    assert moved["ordered"]["a"].device == META
    assert isinstance(moved["pair"], Pair)
    assert moved["pair"].image.device == META
    assert moved["pair"].label == 5
    assert moved["none"] is None
    assert batch["image"].device.type == "cpu"  # the user's own batch stays as it was


def test_what_can_move_itself_is_asked_to():
    assert move_tensors([MovesItself()], META)[0].place == META
    tokens = move_tensors(TokenizerBatch(ids=torch.zeros(2)), META)
    assert isinstance(tokens, TokenizerBatch)
    assert tokens["ids"].device == META
    packed = move_tensors((pack_sequence([torch.zeros(2), torch.zeros(1)]), 3), META)[0]
    assert isinstance(packed, PackedSequence)
    assert packed.data.device == META


def test_fields_of_dataclasses_and_batch_classes_are_moved():
    sample = Sample(torch.zeros(2))
    moved = move_tensors(sample, META)
    assert isinstance(moved, Sample)
    assert (moved.image.device, moved.name) == (META, "a")
    assert sample.image.device.type == "cpu"
    pinned = PinsItself(torch.zeros(2))
    assert move_tensors(pinned, META).inputs.device == META
    assert pinned.inputs.device.type == "cpu"


def test_what_cannot_be_moved_stays():
    for value in ("text", 5, None, b"bytes", Sample, MovesItself, object()):
        assert move_tensors(value, META) is value
    moved: Any = move_tensors(Shape(), META)
    assert [moved[0].device, moved[1]] == [META, 2]
    assert move_tensors(torch.Size((1, 2)), META) == (1, 2)
