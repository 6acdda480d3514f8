"""Workers that are kept for a program that starts them anew each epoch: it does not notice."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import elastic_datasets as ds
from torch.utils.data import DataLoader as TorchLoader

from feedrate.loader.adopt import adopt
from feedrate.loader.kept_workers import before_epoch, keep_workers

pytestmark = pytest.mark.torch


class Epochs(ds.Numbers):
    """Items that tell the epoch that they were told."""

    epoch = 0

    def __getitem__(self, index: int) -> Any:
        return index, self.epoch


class Kept(TorchLoader):  # type: ignore[type-arg]
    """Iterated as ``feedrate run`` does it."""

    def __iter__(self) -> Any:
        before_epoch(self)
        return super().__iter__()


def make(dataset: Any = None, own: int = 0, **options: Any) -> Any:
    """Return a loader with two workers whose program has another number."""
    loader = Kept(dataset or ds.Numbers(20), batch_size=4, num_workers=own, **options)
    adopt(loader)
    keep_workers(loader)
    loader.num_workers, loader.prefetch_factor = 2, 2
    return loader


def plain(length: int = 20, own: int = 0, **options: Any) -> Any:
    return TorchLoader(ds.Numbers(length), batch_size=4, num_workers=own, **options)


def numbers(loader: Any) -> list[list[int]]:
    return [index.tolist() for _, index in loader]


def pids(loader: Any) -> set[int]:
    return {worker.pid for iterator in loader._iterators for worker in iterator._workers}


def epochs(loader: Any) -> list[Any]:
    """What a program sees of three epochs, one of them broken off, and draws between them."""
    torch.manual_seed(5)
    seen: list[Any] = []
    for stop in (None, 2, None):
        seen += [[index.tolist() for _, index in itertools.islice(loader, stop)]]
        seen += torch.rand(2).tolist()
    return seen


@pytest.mark.parametrize("own", [0, 3])
@pytest.mark.parametrize("has_generator", [False, True])
def test_what_is_drawn_is_as_without_keeping(own: int, has_generator: bool) -> None:
    def options() -> dict[str, Any]:
        made = torch.Generator().manual_seed(1) if has_generator else None
        return {"shuffle": True, "generator": made, "own": own}

    loader = make(ds.Numbers(60), **options())
    assert epochs(loader) == epochs(plain(60, **options()))
    assert len(loader._iterators) == 1


def test_workers_are_kept_while_the_dataset_stays() -> None:
    loader = make()
    seen = []
    for _ in range(3):
        numbers(loader)
        seen.append(pids(loader))
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 2


@pytest.mark.parametrize("stop", [None, 2])
def test_a_change_of_the_dataset_reaches_the_workers(stop: int | None) -> None:
    dataset = Epochs(20)
    loader = make(dataset)
    for epoch in range(3):
        dataset.epoch = epoch
        told = {int(each) for _, epochs in itertools.islice(loader, stop) for each in epochs}
        assert told == {epoch}
    assert len(pids(loader)) == 2


@pytest.mark.parametrize("own", [0, 1])
def test_loops_within_loops_and_beside_each_other(own: int) -> None:
    def program(loader: Any) -> list[Any]:
        torch.manual_seed(5)
        seen: list[Any] = []
        for _ in range(2):
            for _, outer in loader:
                inner = [index.tolist() for _, index in loader]
                seen.append((outer.tolist(), inner))
            seen += [(a[1].tolist(), b[1].tolist()) for a, b in zip(loader, loader, strict=True)]
        return seen

    loader = make(own=own, shuffle=True)
    assert program(loader) == program(plain(own=own, shuffle=True))
    assert len(pids(loader)) <= 4  # those of loops that are over have ended


def test_an_iterator_that_is_held_and_through_is_no_obstacle() -> None:
    loader = make()
    iterator = iter(loader)
    first = pids(loader)
    for _ in range(2):
        assert [index.tolist() for _, index in iterator] == numbers(plain())
        iterator = iter(loader)
    assert pids(loader) == first


def test_an_iterator_that_is_held_goes_on_after_another_has_begun() -> None:
    loader = make()
    one = iter(loader)
    assert next(one)[1].tolist() == [0, 1, 2, 3]
    other = iter(loader)
    assert next(other)[1].tolist() == [0, 1, 2, 3]
    assert next(one)[1].tolist() == [4, 5, 6, 7]
    del one
    assert [index.tolist() for _, index in other] == numbers(plain())[1:]


def test_persistent_workers_of_the_programs_own_are_left_as_torch_has_them() -> None:
    def options() -> dict[str, Any]:
        return {"own": 1, "shuffle": True, "persistent_workers": True}

    assert epochs(make(**options())) == epochs(plain(**options()))
    dataset = Epochs(20)
    loader = make(dataset, own=1, persistent_workers=True)
    for epoch in range(2):
        dataset.epoch = epoch
        assert {int(each) for _, epochs in loader for each in epochs} == {0}


def test_another_loader_is_left_alone() -> None:
    loader = Kept(ds.Numbers(20), batch_size=4, num_workers=1)
    assert numbers(loader) == numbers(plain())


def test_a_copy_of_the_loader_is_another_one() -> None:
    loader = make()
    numbers(loader)
    assert numbers(copy.copy(loader)) == numbers(plain())
