"""What is wrong with a target's name, told without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.errors import TargetError
from feedrate.measure.named import defined_names, foresee, split_target


def refusal(target: str, step: str | None = None) -> str:
    """Return the one sentence with which a target is refused."""
    with pytest.raises(TargetError) as caught:
        foresee(target, step)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert caught.value.exit_code == 4
    return sentence


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("train.py:make", ("train.py", "make")),
        ("a/b/train.py:make", ("a/b/train.py", "make")),
        (r"C:\data\train.py:make", (r"C:\data\train.py", "make")),
        ("package.module:make", ("package.module", "make")),
        ("a:b.py:make", ("a:b.py", "make")),
    ],
)
def test_a_target_is_split_at_its_last_colon(text: str, parts: tuple[str, str]):
    assert split_target(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", ":", "train.py", "train.py:", ":make", r"C:\train.py", "train.py:make()", "train.py:a.b"],
)
def test_another_form_is_refused_with_the_right_one(text: str):
    sentence = refusal(text)
    assert repr(text) in sentence
    assert "file.py:name" in sentence


@given(st.text())
def test_any_text_is_split_or_refused(text: str):
    try:
        place, name = split_target(text)
    except TargetError:
        return
    assert f"{place}:{name}" == text
    assert place
    assert name.isidentifier()


PROGRAM = """
import json as reader
from torch.utils.data import DataLoader, Dataset

if __debug__:
    def make_loader():
        inside = 3
        global later
        later = inside
        return DataLoader(Photos())
else:
    other: int
try:
    first, (second, *rest) = 1, (2, 3)
except ValueError as problem:
    pass
with open(__file__) as lines:
    for line in lines:
        found = (size := len(line))
class Photos(Dataset):
    attribute = 1
    def method(self, value=(default := 1)):
        pass
match first:
    case {"a": mapped, **others}:
        pass
    case [captured, *starred]:
        pass
make = lambda: make_loader()
"""


def test_all_names_that_a_file_binds_are_found(here: Path) -> None:
    Path("train.py").write_text(PROGRAM)
    names = defined_names(Path("train.py"))
    assert names is not None
    assert {name for name, is_own in names.items() if is_own} == {"make_loader", "Photos"}
    assert set(names) == {
        *("reader", "DataLoader", "Dataset", "make_loader", "later", "other", "first", "second"),
        *("rest", "problem", "lines", "line", "found", "size", "Photos", "default", "mapped"),
        *("others", "captured", "starred", "make"),
    }
    for name in names:
        foresee(f"train.py:{name}")


def test_a_misspelt_name_is_told_with_the_one_that_was_meant(here: Path) -> None:
    Path("train.py").write_text(PROGRAM)
    assert refusal("train.py:mkae_loader") == (
        "train.py has no 'mkae_loader': did you mean make_loader?"
    )
    assert refusal("train.py:zzz") == "train.py has no 'zzz'; it defines Photos, make_loader"
    assert refusal("train.py:inside").startswith("train.py has no 'inside'")
    assert refusal("train.py:make", "setp").startswith("train.py has no 'setp'")


def test_a_file_of_nothing(here: Path) -> None:
    Path("train.py").write_text("")
    assert refusal("train.py:make") == "train.py has no 'make'"


@pytest.mark.parametrize(
    "text",
    [
        "from elsewhere import *",
        "globals()['make'] = print",
        "exec('make = print')",
        "import sys\nsetattr(sys.modules[__name__], 'make', print)",
        "from sys import modules",
        "import me\nme.__dict__.update(make=print)",
        "import inspect\ninspect.currentframe().f_globals['make'] = print",
        "def __getattr__(name): return print",
        "this is no Python",
        "x = '\0'",
    ],
)
def test_nothing_is_claimed_of_what_only_running_tells(here: Path, text: str) -> None:
    Path("train.py").write_text(text)
    foresee("train.py:make")


@pytest.mark.parametrize(
    "text", ["model.eval()", "model.modules()", "modules = 3", "setattr(a, b, c)"]
)
def test_what_only_looks_like_it_hides_no_misspelling(here: Path, text: str) -> None:
    Path("train.py").write_text(text)
    assert refusal("train.py:make").startswith("train.py has no 'make'")


def test_a_misspelt_file_is_told_with_the_one_that_was_meant(here: Path) -> None:
    Path("train.py").write_text(PROGRAM)
    assert refusal("tarin.py:make") == "there is no file tarin.py: did you mean train.py?"
    (here / "sub").mkdir()
    assert refusal("sub/zzz.py:make") == (
        "there is no file sub/zzz.py; targets are written file.py:name or package.module:name"
    )
    assert refusal("none/train.py:make").startswith("there is no file none/train.py; targets are")


def test_a_misspelt_module_is_told_with_the_one_that_was_meant(here: Path) -> None:
    Path("user_training.py").write_text(PROGRAM)
    (here / "user_package").mkdir()
    (here / "user_package" / "__init__.py").touch()
    before = set(sys.modules)
    assert refusal("user_trainign:make") == (
        "there is no module user_trainign that can be imported: did you mean user_training?"
    )
    assert refusal("user_pakcage.part:make").endswith("did you mean user_package?")
    assert refusal("zzzzzz:make").endswith(
        "; targets are written file.py:name or package.module:name"
    )
    # a folder without __init__.py is a package too, and what is in one is not looked at
    (here / "user_folder").mkdir()
    for place in (
        "user_training",
        "user_package.part",
        "user_folder.part",
        "json.part",
        "__main__",
    ):
        foresee(f"{place}:make")
    assert not {name for name in set(sys.modules) - before if name.startswith("user_")}


def test_another_form_of_module_is_left_to_the_import(here: Path) -> None:
    foresee("folder/train:make")
