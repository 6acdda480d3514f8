"""Given settings on IterableDatasets: how many batches an epoch has then is looked for too."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from watching import watch

from feedrate.measure import static, wire
from feedrate.records import LoaderUse
from feedrate.settings import LoaderSettings

pytestmark = pytest.mark.torch

BATCHES, BATCH = 100, 4
ITEM_SECONDS = 0.0005
"""So that the window, which is over after `SECONDS`, never holds a whole epoch."""
SECONDS = 0.05


class Shares(IterableDataset[Any]):
    """Each worker gives its part of the items."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        return self.items(range(first, BATCHES * BATCH, step))

    @staticmethod
    def items(numbers: range) -> Iterator[Any]:
        for number in numbers:
            time.sleep(ITEM_SECONDS)
            yield torch.tensor(number)


class Repeats(Shares):
    """Each worker gives all items."""

    def __iter__(self) -> Iterator[Any]:
        return self.items(range(BATCHES * BATCH))


class Sized(Repeats):
    """The same, with the length that its items have without workers."""

    def __len__(self) -> int:
        return BATCHES * BATCH


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return BATCHES * BATCH

    def __getitem__(self, index: int) -> Any:
        time.sleep(ITEM_SECONDS)
        return torch.tensor(index)


def measured(dataset: Dataset[Any], *, usual: int | None = BATCHES) -> LoaderUse:
    """Return what is told of the loader that is measured with two workers."""

    def train() -> None:
        loader = DataLoader(dataset, batch_size=BATCH)
        while True:
            for batch in loader:
                torch.relu(batch)

    session = wire.Static(seconds=SECONDS, loader=0, epoch_batches=usual)
    said = watch(session, train, LoaderSettings(num_workers=2))
    assert said.is_complete
    assert len(said.windows) == 1
    (use,) = said.used.loaders
    assert said.used.training_loader == use.number
    return use


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_PATIENCE", math.inf)


@pytest.mark.usefixtures("patient")
def test_workers_that_share_are_seen_to_the_end_of_an_epoch() -> None:
    use = measured(Shares())
    assert (use.ended_batches, use.most_batches) == (BATCHES, BATCHES)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("dataset", [Repeats(), Sized()])
def test_workers_that_repeat_are_seen_at_the_first_batch_too_many(dataset: Repeats) -> None:
    use = measured(dataset)
    assert use.ended_batches is None
    assert use.most_batches == BATCHES + 2 + 1  # each of two may have a last batch of its own


def test_an_epoch_that_is_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_PATIENCE", 0.0)
    use = measured(Repeats())
    assert use.ended_batches is None
    assert use.most_batches < BATCHES


@pytest.mark.usefixtures("patient")
def test_nothing_is_looked_for_that_is_known_or_cannot_be_told() -> None:
    for use in (measured(Numbers()), measured(Repeats(), usual=None)):
        assert use.most_batches < BATCHES
