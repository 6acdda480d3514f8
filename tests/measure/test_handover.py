"""How a child comes by the target, and that it gets that very thing."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from feedrate.errors import UsageError
from feedrate.measure.child import _open_target
from feedrate.measure.handover import Handover, hand_over, importable_name
from feedrate.measure.target import Target
from feedrate.measure.wire import ChildSpec, unpack_object
from targets import basic_script

pytestmark = pytest.mark.torch
SCRIPT = Path(basic_script.__file__)


def open_handover(handover: Handover) -> Target:
    """Do what a child does with it."""
    spec = ChildSpec(
        target=handover.target,
        pickled=handover.pickled,
        step=handover.step,
        search_path=handover.search_path,
        settings=None,
        epochs=1,
    )
    return _open_target(msgspec.json.decode(msgspec.json.encode(spec), type=ChildSpec))


def test_text_is_handed_on_as_it_is():
    assert hand_over("train.py:make") == Handover(target="train.py:make")
    assert hand_over("train.py:make", "step") == Handover(target="train.py:make", step="step")


def test_a_function_of_a_module_goes_by_name():
    handover = hand_over(basic_script.make_loader)
    assert (handover.target, handover.pickled) == ("targets.basic_script:make_loader", None)
    assert str(SCRIPT.parents[1]) in handover.search_path
    assert open_handover(handover).loader.batch_size == 4


def test_a_class_of_a_module_goes_by_name_and_is_called():
    handover = hand_over(basic_script.Numbers)
    assert handover.target == "targets.basic_script:Numbers"
    assert len(open_handover(handover).loader.dataset) == 8  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def from_script(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Handover]:
    """Return what a script handed over, of what it had defined as ``__main__``."""
    out = tmp_path_factory.mktemp("handover") / "handovers.json"
    subprocess.run([sys.executable, str(SCRIPT), str(out)], check=True, timeout=60)
    return msgspec.json.decode(out.read_bytes(), type=dict[str, Handover])


@pytest.mark.parametrize("name", ["function", "class"])
def test_what_a_script_defines_goes_by_its_file(name: str, from_script: dict[str, Handover]):
    handover = from_script[name]
    assert handover.pickled is None
    defined = {"function": "make_loader", "class": "Numbers"}[name]
    assert handover.target == f"{SCRIPT}:{defined}"


@pytest.mark.parametrize(
    ("name", "shown", "batch_size"),
    [
        ("lambda", "<lambda>", 2),
        ("loader", "DataLoader", 3),
        ("dataset", "Numbers", 32),
        ("with step", "make_loader", 4),
    ],
)
def test_what_has_no_name_goes_with_its_code(
    name: str, shown: str, batch_size: int, from_script: dict[str, Handover]
):
    handover = from_script[name]
    assert handover.target == shown
    target = open_handover(handover)
    assert target.loader.batch_size == batch_size
    assert sum(batch.sum().item() for batch in target.loader) == sum(range(8))
    if name == "with step":
        assert target.step is not None
        assert target.step(torch.ones(3)) == 3


def test_the_current_folder_goes_with_the_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere", Path("/not/text"), b"/not/text"])
    handover = hand_over(basic_script.make_loader)
    assert handover.search_path == (str(tmp_path), "/elsewhere")
    msgspec.json.encode(handover)


def closure(length: int) -> Callable[[], DataLoader[Any]]:
    def make() -> DataLoader[Any]:
        return DataLoader(TensorDataset(torch.arange(length)), batch_size=2)

    return make


DATASET = TensorDataset(torch.arange(6.0))


@pytest.mark.parametrize(
    ("target", "step", "items"),
    [
        (closure(6), None, 6),
        (lambda: DataLoader(DATASET), None, 6),
        (functools.partial(closure(5)), None, 5),
        (DataLoader(DATASET, batch_size=2, shuffle=True), None, 6),
        (DATASET, None, 6),
        ((DataLoader(DATASET), print), None, 6),
        (closure(4), lambda batch: batch[0].sum(), 4),
        (DATASET, basic_script.step, 6),
    ],
)
def test_objects_come_out_as_they_went_in(target: Any, step: Any, items: int):
    handover = hand_over(target, step)
    assert handover.pickled is not None
    opened = open_handover(handover)
    assert len(opened.loader.dataset) == items  # type: ignore[arg-type]
    wanted = target[1] if isinstance(target, tuple) else step
    assert (opened.step is None) == (wanted is None)


def test_a_loaders_generator_comes_along_in_its_state():
    torch_generator = torch.Generator().manual_seed(3)
    loader = DataLoader(DATASET, shuffle=True, generator=torch_generator)
    opened = open_handover(hand_over(loader)).loader
    assert [batch[0].item() for batch in opened] == [batch[0].item() for batch in loader]


@pytest.mark.parametrize(
    "target",
    [
        DataLoader([threading.Lock()]),  # type: ignore[list-item]
        (number for number in range(3)),
        functools.partial(print, threading.Lock()),
    ],
    ids=["loader", "generator", "partial"],
)
def test_what_cannot_be_pickled_is_refused_with_the_way_out(target: Any):
    with pytest.raises(UsageError) as caught:
        hand_over(target)
    sentence = str(caught.value)
    assert "cannot be handed to another process (TypeError: cannot pickle" in sentence
    assert sentence.endswith("at the top level of a module, and give that")


class RefusesAtLength:
    def __reduce__(self) -> str:
        raise ValueError("not me\nnor any other")


def test_a_refusal_of_several_lines_becomes_one():
    with pytest.raises(UsageError) as caught:
        hand_over(RefusesAtLength())
    assert "(ValueError: not me nor any other)" in str(caught.value)


def test_a_step_and_a_target_are_both_text_or_neither():
    with pytest.raises(UsageError, match="given as text is given as text too"):
        hand_over("train.py:make", print)
    with pytest.raises(UsageError, match="step 'step' is a name, and the target is an object"):
        hand_over(basic_script.make_loader, "step")


def make_nothing() -> None:
    """Stand for a function that something else has taken the name of."""


class Holder:
    @staticmethod
    def make() -> None: ...


def test_only_what_importing_finds_again_has_a_name(monkeypatch: pytest.MonkeyPatch):
    assert importable_name(make_nothing) == f"{__name__}:make_nothing"
    assert importable_name(Holder) == f"{__name__}:Holder"
    assert importable_name(Holder.make) is None
    assert importable_name(lambda: None) is None
    assert importable_name(closure(3)) is None
    assert importable_name(DATASET) is None
    assert importable_name(functools.partial(make_nothing)) is None
    decorated = functools.wraps(make_nothing)(lambda: None)
    assert importable_name(decorated) is None
    monkeypatch.delitem(sys.modules, __name__)
    assert importable_name(make_nothing) is None


class AnswersEverything:
    def __getattr__(self, name: str) -> Any:
        return AnswersEverything()


def test_an_object_that_has_every_attribute_has_no_name():
    assert importable_name(AnswersEverything()) is None


@pytest.mark.parametrize("file", [None, "/nowhere/train.py", "<stdin>", __file__ + "c"])
def test_main_without_a_script_has_no_names(file: str | None, monkeypatch: pytest.MonkeyPatch):
    main = ModuleType("__main__")
    main.make_nothing = make_nothing  # type: ignore[attr-defined]
    if file is not None:
        main.__file__ = file
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(make_nothing, "__module__", "__main__")
    assert importable_name(make_nothing) is None
    main.__file__ = __file__
    assert importable_name(make_nothing) == f"{__file__}:make_nothing"


def test_what_is_handed_over_as_an_object_keeps_its_file() -> None:
    kept = []

    class Items:
        def __getitem__(self, index: int) -> int:
            kept.append([index for _ in range(3)])
            return index

    def make() -> Items:
        return Items()

    handed = hand_over(make)
    assert handed.pickled is not None
    made, _ = pickle.loads(unpack_object(handed.pickled))
    assert made.__code__.co_filename == __file__
    assert type(made()).__getitem__.__code__.co_filename == __file__
    named = compile("def f(): return 1", "<ipython-input-3>", "exec")
    space: dict[str, Any] = {}
    exec(named, space)
    handed = hand_over(space["f"])
    assert handed.pickled is not None
    made, _ = pickle.loads(unpack_object(handed.pickled))
    assert (made.__code__.co_filename, made()) == ("<ipython-input-3>", 1)
