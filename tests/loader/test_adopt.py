"""Loaders that exist already become elastic: the same object, the same batches."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import adopted_loaders as kinds
import elastic_datasets as ds
from torch.utils.data import DataLoader as TorchLoader
from waiting import until

import feedrate
from feedrate.errors import TargetError
from feedrate.loader.adopt import adopt
from feedrate.loader.iterator import ElasticIterator

pytestmark = pytest.mark.torch

LENGTH = 20


def indices(batches: Any) -> list[list[int]]:
    """The items of each batch, checked against their tensors; from workers."""
    read = []
    for batch in batches:
        data, index = batch[1] if batch[0] == "wrapped" else batch
        assert torch.equal(data[:, 0, 0].long(), index)
        read.append([int(each) for each in index])
    return read


def make(kind: Any = TorchLoader, workers: int = 2, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(3)
    given = {"batch_size": 6, "shuffle": True, "num_workers": workers, "generator": generator}
    return kind(ds.Numbers(LENGTH), **(given | options))


def elastic_iterators(loader: Any) -> int:
    return len(loader._iterators)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("transport", ["arena", "torch"])
def test_torchs_loader_gives_the_same_batches(workers: int, transport: Any) -> None:
    loader = make(workers=workers, persistent_workers=workers > 0)
    before = dict(vars(loader))
    assert adopt(loader, transport=transport) is None
    assert type(loader) is feedrate.DataLoader
    assert before.items() <= vars(loader).items()
    plain = make(workers=workers, persistent_workers=workers > 0)
    assert [indices(loader) for _ in range(2)] == [indices(plain) for _ in range(2)]
    assert elastic_iterators(loader) == (workers > 0)
    assert loader.transport == transport


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_subclass_keeps_its_own_ways(method: str) -> None:
    loader = make(kinds.Twice, times=3, multiprocessing_context=method)
    adopt(loader)
    assert isinstance(loader, kinds.Twice)
    assert isinstance(loader, feedrate.DataLoader)
    kind = type(loader)
    assert (kind.__name__, kind.__qualname__, kind.__module__) == (
        "Twice",
        "Twice",
        "adopted_loaders",
    )
    assert (loader.times, len(loader), loader.stats()) == (3, 12, "the user's")
    batches = iter(loader)
    first = next(batches)
    assert elastic_iterators(loader) == 1
    read = indices([first, *batches])
    assert read[::3] == read[1::3] == read[2::3] == indices(make())


@pytest.mark.parametrize("kind", [kinds.Mixed, kinds.Wrapping, kinds.ByName, kinds.Slotted])
def test_ways_that_come_to_torchs_are_kept(kind: Any) -> None:
    loader = make(kind)
    adopt(loader)
    iterator = iter(loader)
    assert elastic_iterators(loader) == 1
    assert indices(iterator) == indices(make(kind))
    assert getattr(loader, "epochs", 1) == 1


def test_a_guard_of_the_class_is_not_in_the_way() -> None:
    loader = make(kinds.Guarded)
    object.__setattr__(loader, "made", True)
    adopt(loader)
    with pytest.raises(AttributeError, match="transport is fixed"):
        loader.transport = "torch"
    assert indices(loader) == indices(make())


def test_loaders_of_one_class_stay_so() -> None:
    one, other = make(kinds.Twice), make(kinds.Twice)
    adopt(one)
    adopt(other)
    assert type(one) is type(other)


def test_an_adopted_loader_grows_and_shrinks() -> None:
    loader = make(kinds.Mixed, workers=1, batch_size=1)
    adopt(loader, on_worker_death="replace")
    iterator = iter(loader)
    read = [next(iterator)]
    loader.grow(2)
    read += [next(iterator) for _ in range(5)]
    loader.shrink()
    assert (loader.num_workers, loader.on_worker_death) == (2, "replace")
    assert indices([*read, *iterator]) == indices(make(workers=0, batch_size=1))


def test_ours_stays_as_it_is() -> None:
    loader = feedrate.DataLoader(ds.Numbers(), num_workers=1, transport="torch")
    adopt(loader)
    assert (type(loader), loader.transport) == (feedrate.DataLoader, "torch")
    adopted = make(kinds.Twice)
    adopt(adopted)
    kind = type(adopted)
    adopt(adopted, transport="torch")
    assert (type(adopted), adopted.transport) == (kind, "arena")


def test_workers_that_were_kept_are_let_go() -> None:
    loader = make(persistent_workers=True)
    first = indices(loader)
    kept = loader._iterator
    processes = list(kept._workers)
    adopt(loader)
    until(lambda: not any(process.is_alive() for process in processes))
    assert loader._iterator is None
    assert indices(loader) != first  # the generator goes on
    assert isinstance(loader._iterator, ElasticIterator)


@pytest.mark.parametrize("kind", [TorchLoader, kinds.Twice, kinds.OwnState])
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_pickled_loader_is_elastic_again(kind: Any, protocol: int) -> None:
    loader = make(kind)
    adopt(loader)
    again = pickle.loads(pickle.dumps(loader, protocol))
    assert type(again) is type(loader)
    # also while an iteration is under way
    iterator = iter(loader)
    next(iterator)
    again = pickle.loads(pickle.dumps(loader, protocol))
    assert getattr(again, "packed", True)
    fresh = iter(again)
    next(fresh)
    assert (elastic_iterators(again), elastic_iterators(loader)) == (1, 1)


def test_a_copied_or_saved_loader_is_elastic_too(tmp_path: Path) -> None:
    loader = make(kinds.Twice, workers=1, shuffle=False, generator=None)
    adopt(loader, transport="torch")
    file = io.BytesIO()
    torch.save(loader, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in (copy.copy(loader), copy.deepcopy(loader), loaded):
        assert type(other) is type(loader)
        assert (other.times, other.transport) == (2, "torch")
        assert indices(other)[::2] == indices(make(shuffle=False))


def test_another_process_can_read_the_pickle() -> None:
    loader = make(kinds.Twice)
    adopt(loader)
    code = """
        import pickle, sys
        loader = pickle.load(sys.stdin.buffer)
        print(type(loader).__mro__[1].__name__, sum(1 for _ in loader))
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input=pickle.dumps(loader),
        capture_output=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )
    assert answer.stdout.split() == [b"Twice", b"8"]


def test_a_pickle_of_the_users_own_stays_theirs() -> None:
    loader = make(kinds.OwnReduce)
    adopt(loader)
    assert type(pickle.loads(pickle.dumps(loader))) is kinds.Twice


def test_a_class_that_nobody_uses_is_let_go() -> None:
    class Local(TorchLoader):  # type: ignore[type-arg]
        pass

    loader = make(Local)
    adopt(loader)
    made = weakref.ref(type(loader))
    assert indices(loader) == indices(make())
    del loader, Local
    gc.collect()
    assert made() is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (kinds.OwnIterator, "OwnIterator._get_iterator makes its batches without torch's own"),
        (kinds.Strict, "colour"),
        (kinds.Keeps, "keep_stats is a name that feedrate.DataLoader needs itself"),
    ],
)
def test_what_cannot_be_elastic_is_refused_and_stays(kind: Any, why: str) -> None:
    loader = make(kind)
    before = dict(vars(loader))
    with pytest.raises(TargetError) as caught:
        adopt(loader)
    assert str(caught.value).startswith(f"the loader's class {kind.__name__} cannot be made elasti")
    assert why in str(caught.value)
    assert "make a feedrate.DataLoader in its place" in str(caught.value)
    assert (type(loader), dict(vars(loader))) == (kind, before)


def test_what_iterates_another_loader_is_refused() -> None:
    with pytest.raises(TargetError, match=r"Handing.__iter__ makes its batches without torch's"):
        adopt(kinds.Handing(make()))


@pytest.mark.parametrize("name", ["settings", "history", "transport", "pilot"])
def test_an_attribute_of_the_users_is_never_hidden(name: str) -> None:
    loader = make()
    setattr(loader, name, "the user's")
    with pytest.raises(TargetError, match=f"{name} is a name that"):
        adopt(loader)
    assert getattr(loader, name) == "the user's"


def test_what_is_no_loader_is_refused() -> None:
    with pytest.raises(TargetError, match="list is no torch"):
        adopt([1, 2])


def test_ways_that_there_are_not_are_refused_before_anything_changes() -> None:
    loader = make()
    with pytest.raises(ValueError, match="transport takes"):
        adopt(loader, transport="pigeon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_worker_death takes"):
        adopt(loader, on_worker_death="mourn")  # type: ignore[arg-type]
    assert type(loader) is TorchLoader
