"""Finding the user's module, the name in it, and a loader in what that gives."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from feedrate.errors import TargetError
from feedrate.measure.child import _open_target
from feedrate.measure.target import (
    Target,
    find_attribute,
    interpret,
    is_iterable_dataset,
    load_module,
)
from feedrate.measure.wire import ChildSpec

pytestmark = pytest.mark.torch
FACTORIES = Path(__file__).parents[1] / "targets" / "basic_factories.py"


@pytest.fixture(autouse=True)
def _modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what importing a target does to the process, which a child never needs to."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if name.startswith(("feedrate_target_", "basic_", "user_")):
            del sys.modules[name]
    importlib.invalidate_caches()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def refusal(call: Any, *arguments: Any) -> str:
    """Return the one sentence with which something is refused."""
    with pytest.raises(TargetError) as caught:
        call(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert caught.value.exit_code == 4
    return sentence


def test_a_file_is_imported_under_its_own_name_with_its_folder_on_the_path(tmp_path: Path):
    write(tmp_path / "user_neighbour.py", "VALUE = 3")
    path = write(
        tmp_path / "user_train.py",
        """
        import sys
        from user_neighbour import VALUE
        argv = list(sys.argv)
        """,
    )
    module = load_module(str(path))
    assert module.__name__ == "user_train"
    assert module.VALUE == 3
    assert module.argv == [str(path)]
    assert sys.path[0] == str(tmp_path)


def test_a_file_is_found_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "sub" / "user_here.py", "VALUE = 1")
    monkeypatch.chdir(tmp_path)
    assert load_module("sub/user_here.py").VALUE == 1
    monkeypatch.chdir(tmp_path / "sub")
    assert load_module("user_here.py").VALUE == 1


def test_the_same_file_twice_is_the_same_module(tmp_path: Path):
    path = write(tmp_path / "user_twice.py", "things = []")
    assert load_module(str(path)) is load_module(str(path))
    taken = write(tmp_path / "random.py", "things = []")
    assert load_module(str(taken)) is load_module(str(taken))


@pytest.mark.parametrize("name", ["random.py", "torch.py", "feedrate.py", "__main__.py"])
def test_a_file_with_a_taken_name_is_loaded_beside_the_other(tmp_path: Path, name: str):
    import random

    path = write(tmp_path / name, "import random, torch\nVALUE = torch.zeros(random.randint(2, 2))")
    module = load_module(str(path))
    assert module.VALUE.shape == (2,)
    assert module.__name__ == f"feedrate_target_{path.stem}"
    assert sys.modules["random"] is random
    assert sys.modules["torch"] is torch


def test_a_package_beside_a_file_of_the_same_name_does_not_hide_it(tmp_path: Path):
    write(tmp_path / "user_both" / "__init__.py", "VALUE = 'package'")
    path = write(tmp_path / "user_both.py", "VALUE = 'file'")
    assert load_module(str(path)).VALUE == "file"


@pytest.mark.parametrize("name", ["user-train.py", "user_train.v2.py", "user train.py"])
def test_a_file_whose_name_is_no_identifier_is_loaded(tmp_path: Path, name: str):
    assert load_module(str(write(tmp_path / name, "VALUE = 1"))).VALUE == 1


def test_a_file_with_a_hyphen_can_be_imported_by_workers_too(tmp_path: Path):
    load_module(str(write(tmp_path / "user-worker.py", "VALUE = 1")))
    assert importlib.import_module("user-worker").VALUE == 1


def test_a_module_is_imported_by_name_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path / "user_package" / "__init__.py", "")
    write(tmp_path / "user_package" / "data.py", "from . import other\nVALUE = other.VALUE")
    write(tmp_path / "user_package" / "other.py", "VALUE = 7")
    monkeypatch.chdir(tmp_path)
    module = load_module("user_package.data")
    assert module.VALUE == 7
    assert module.__name__ == "user_package.data"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("no/such/file.py", "there is no file no/such/file.py"),
        (".", "is no module's name"),
        ("a..b", "is no module's name"),
        (".relative", "is no module's name"),
        ("folder/train", "is no module's name"),
        ("user_missing", "there is no module user_missing that can be imported"),
        ("user_missing.sub", "there is no module user_missing.sub that can be imported"),
        ("json.user_missing", "there is no module json.user_missing that can be imported"),
        ("json.decoder.sub", "there is no module json.decoder.sub that can be imported"),
        ("notebook.ipynb", "there is no module notebook.ipynb that can be imported"),
    ],
)
def test_a_place_that_is_none_is_refused_in_one_sentence(place: str, says: str):
    sentence = refusal(load_module, place)
    assert says in sentence
    assert "file.py:name or package.module:name" in sentence


def test_a_folder_is_no_file(tmp_path: Path):
    (tmp_path / "user_folder.py").mkdir()
    assert "there is no file" in refusal(load_module, str(tmp_path / "user_folder.py"))


def test_what_the_target_imports_in_vain_is_the_users_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write(tmp_path / "user_needs.py", "import user_not_installed")
    with pytest.raises(ModuleNotFoundError, match="user_not_installed"):
        load_module(str(path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="user_not_installed"):
        load_module("user_needs")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("from . import other", ImportError),
        ("def broken(:", SyntaxError),
        ("raise SystemExit(3)", SystemExit),
        ("1 / 0", ZeroDivisionError),
    ],
)
def test_errors_while_importing_pass_through(tmp_path: Path, text: str, kind: type[Exception]):
    with pytest.raises(kind):
        load_module(str(write(tmp_path / "user_broken.py", text)))


def test_a_missing_name_is_refused_with_what_there_is(tmp_path: Path):
    path = write(
        tmp_path / "user_names.py",
        """
        from os.path import join
        VALUE = 3
        def make_loader(): ...
        class Photos: ...
        """,
    )
    module = load_module(str(path))
    assert find_attribute(module, "user_names.py", "VALUE") == 3
    sentence = refusal(find_attribute, module, "user_names.py", "make_loaders")
    assert sentence == "user_names.py has no 'make_loaders': did you mean make_loader?"
    empty = load_module(str(write(tmp_path / "user_empty.py", "")))
    assert refusal(find_attribute, empty, "user_empty.py", "make") == "user_empty.py has no 'make'"


def open_target(name: str, **changes: Any) -> Target:
    spec = ChildSpec(target=f"{FACTORIES}:{name}", settings=None, epochs=1, **changes)
    return _open_target(spec)


@pytest.mark.parametrize(
    ("name", "batch_size", "batches"),
    [
        ("make_loader", 4, 4),
        ("maker", 4, 4),
        ("partial", 2, 8),
        ("short", 3, 6),
        ("loader", 8, 2),
        ("LoaderMaker", None, None),
        ("Squares", 32, 1),
        ("make_dataset", 32, 1),
        ("make_tensors", 32, 1),
        ("dataset", 32, 1),
        ("table", 32, 1),
        ("make_pair_without_step", 4, 4),
    ],
)
def test_factories_classes_callables_and_objects(
    name: str, batch_size: int | None, batches: int | None
):
    if batch_size is None:  # the class makes a callable, which is no loader
        assert "LoaderMaker" in refusal(open_target, name)
        return
    target = open_target(name)
    assert target.step is None
    assert target.loader.batch_size == batch_size
    assert sum(1 for _ in target.loader) == batches


def test_arguments_reach_the_factory_by_name():
    assert open_target("maker", arguments={"batch_size": 16}).loader.batch_size == 16


def test_a_step_comes_with_the_loader_or_by_its_name():
    target = open_target("make_pair")
    assert target.step is not None
    assert target.step(torch.ones(3)) == 3
    assert open_target("pair").step is print
    named = open_target("make_loader", step="step")
    assert named.step is not None
    assert named.step(torch.ones(4)) == 4
    assert "step number (--step) is no function" in refusal(
        lambda: open_target("make_loader", step="number")
    )
    assert "has no 'steps'" in refusal(lambda: open_target("make_loader", step="steps"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("make_nothing", "None (is a return missing?)"),
        ("make_three", "returned a tuple of 3"),
        ("make_list", "an object of type list"),
        ("make_generator", "an object of type generator"),
        ("make_mapping", "an object of type dict"),
        ("make_model", "an object of type torch.nn.modules.container.Sequential"),
        ("make_two_loaders", "(…, DataLoader): the second of the two must be a function"),
        ("number", "an object of type int"),
        ("NotCallable", "an object of type basic_factories.NotCallable"),
    ],
)
def test_what_is_no_loader_is_refused_with_what_it_is(name: str, says: str):
    assert says in refusal(open_target, name)


def test_a_factory_that_needs_arguments_fails_as_python_does():
    with pytest.raises(TypeError, match="required positional argument: 'path'"):
        open_target("needs_a_path")


class Indexed:
    def __getitem__(self, index: int) -> int:
        return index


class Sized(Indexed):
    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("value", ["text", b"bytes", (1, 2, 3), {1, 2}, Indexed(), object(), Sized])
def test_only_what_has_items_and_a_length_reads_like_a_dataset(value: Any):
    assert "returned" in refusal(interpret, value, "make()")


def test_a_dataset_of_no_ones_class_is_wrapped():
    target = interpret(Sized(), "make()")
    assert [batch.tolist() for batch in target.loader] == [[0, 1, 2]]
    assert not is_iterable_dataset(target.loader)


def test_an_iterable_dataset_is_told_apart():
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    target = interpret(Stream(), "make()")
    assert is_iterable_dataset(target.loader)
    assert [batch.tolist() for batch in target.loader] == [[0, 1, 2]]


def test_the_loader_itself_is_the_users_own_object():
    loader = DataLoader([1, 2, 3])  # type: ignore[var-annotated, arg-type]
    assert interpret(loader, "make()").loader is loader
    assert interpret((loader, None), "make()") == Target(loader, None)
