"""How the pass comes into a worker and leaves the target's loop as it was."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from feedrate.measure.causes import in_worker
from feedrate.measure.causes.in_worker import InspectingCollate, probe_worker
from feedrate.measure.causes.inspection import Causes, Inspection
from feedrate.measure.causes.session import CausesSession
from feedrate.measure.hook import Hook
from feedrate.memory_records import GrowthCause
from torch_signals import torchs_handler_comes_back

__all__ = ["torchs_handler_comes_back"]

pytestmark = pytest.mark.torch

NOBODY = "worker 7"
"""Loaders have fewer workers here: none looks at itself, which takes its time."""


def workers() -> int:
    return len(multiprocessing.active_children())


def under_the_pass(script: Callable[[], object]) -> None:
    hook = Hook(CausesSession(lambda _: None, Causes(seconds=60.0, process=NOBODY), None))
    hook.install()
    try:
        script()
        hook.session.close()
    finally:
        hook.remove()


def test_of_loaders_that_are_made_anew_the_latest_keeps_its_workers() -> None:
    alive = []

    def script() -> None:
        for _ in range(4):
            loader = DataLoader(range(8), batch_size=2, num_workers=1)  # type: ignore[arg-type]
            assert len(list(loader)) == 4
            alive.append(workers())

    under_the_pass(script)
    assert alive == [1, 1, 1, 1]
    assert workers() == 0


def test_a_loader_that_the_program_lets_go_takes_its_workers_along() -> None:
    alive = []

    def script() -> None:
        for _ in range(3):
            for _batch in DataLoader(range(4), num_workers=1):  # type: ignore[arg-type]
                pass
            alive.append(workers())

    under_the_pass(script)
    assert alive == [0, 0, 0]


def test_loaders_that_the_program_holds_keep_no_workers_but_the_latest() -> None:
    loaders = []
    alive = []

    def script() -> None:
        for _ in range(3):
            loaders.append(DataLoader(range(8), batch_size=2, num_workers=1))  # type: ignore[arg-type]
            collate = loaders[-1].collate_fn
            list(loaders[-1])
            assert isinstance(loaders[-1].collate_fn, InspectingCollate)
            assert [each.collate_fn for each in loaders[:-1]] == [collate] * (len(loaders) - 1)
            alive.append(workers())

    under_the_pass(script)
    assert alive == [1, 1, 1]
    assert workers() == 0
    assert not any(each.persistent_workers for each in loaders)


def test_a_loop_in_the_midst_of_the_loader_before_goes_on() -> None:
    got = []

    def script() -> None:
        running: list[Iterator[Any]] = []
        for _ in range(2):
            loader = DataLoader(range(12), batch_size=2, num_workers=1)  # type: ignore[arg-type]
            running.append(iter(loader))
            got.append(next(running[-1]).tolist())
        got.extend(batch.tolist() for each in running for batch in each)

    under_the_pass(script)
    whole = [[n, n + 1] for n in range(0, 12, 2)]
    assert got == [whole[0], whole[0], *whole[1:], *whole[1:]]


class Counter:
    """An inspector that only counts."""

    is_over = False
    inspection = Inspection(process="worker 0", growth=GrowthCause(process="worker", grown=0))

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.epoch_items: float | None = None

    def passed(self, items: int) -> None:
        self.counts.append(items)


class Pairs:
    """Items of an image and its number, or batches of four."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int | list[int]) -> Any:
        if isinstance(index, list):
            return torch.zeros(len(index), 3, 2, 2), torch.tensor(index)
        return torch.zeros(*([self.count] if self.count else []), 3, 2, 2), index


def index_of(loader: Any) -> Iterator[Any]:
    return iter(loader.batch_sampler if loader.batch_sampler is not None else loader.sampler)


def made_of(loader: Any, index: Any) -> Any:
    is_batch = loader.batch_sampler is not None
    return [loader.dataset[each] for each in index] if is_batch else loader.dataset[index]


LOADERS: dict[str, tuple[Callable[[], Any], int, int]] = {
    "batches that torch makes": (lambda: DataLoader(Pairs(), batch_size=3), 3, 1),
    "single items": (lambda: DataLoader(Pairs(), batch_size=None), 1, 1),
    "batches of a sampler": (
        lambda: DataLoader(
            Pairs(), batch_size=None, sampler=BatchSampler(SequentialSampler(Pairs()), 3, False)
        ),
        3,
        3,
    ),
}


@pytest.mark.parametrize("name", LOADERS)
def test_items_are_counted_as_the_main_process_counts_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, items, each = LOADERS[name]
    loader, counter = make(), Counter()

    def inspector(*_: Any, epoch_items: float, **__: Any) -> Counter:
        counter.epoch_items = epoch_items
        return counter

    monkeypatch.setattr(in_worker, "make_inspector", inspector)
    info = SimpleNamespace(id=0, dataset=loader.dataset)
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: info)
    with probe_worker(loader, seconds=1.0, epoch_items=12.0):
        collate = pickle.loads(pickle.dumps(loader.collate_fn))
        for index in index_of(loader):
            collate(made_of(loader, index))
    assert set(counter.counts) == {items}
    assert counter.epoch_items == 12.0 * each, "takings times the items of each"
