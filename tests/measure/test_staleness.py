"""What changes in a dataset after its workers have started: what is seen of it, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from feedrate.measure.examined import Part, Stale
from feedrate.measure.examining import small, staleness
from feedrate.measure.examining.probe import AVAILABLE, run_probe
from torch_signals import torchs_handler_comes_back

__all__ = ["torchs_handler_comes_back"]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not AVAILABLE, reason="its workers are forked"),
]


class Flip:
    """A transform of the user's own."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, value: int) -> float:
        return value * self.share


class Rows(Dataset[Any]):
    def __init__(self) -> None:
        self.flip = Flip(0.1)
        self.level = 1
        self.epoch = torch.zeros((), dtype=torch.long).share_memory_()
        self.read = 0
        self.large = [0] * 10_000
        self.function = lambda value: value

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.flip(index) + self.level + int(self.epoch)


def loader_of(rows: Rows) -> DataLoader[Any]:
    return DataLoader(
        rows,
        batch_size=4,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="fork",
    )


def test_small_attributes_are_copied_and_nothing_that_costs_much() -> None:
    copies = small.copies_of(Rows())
    assert copies.keys() == {"flip", "level", "epoch", "read"}
    assert small.digests_of(Rows()).keys() == copies.keys()


def test_what_workers_do_not_see_is_told_apart_from_what_they_share() -> None:
    rows = Rows()
    before = small.copies_of(rows)
    rows.flip.share, rows.level = 0.5, 2
    rows.epoch.fill_(3)
    found = staleness.try_changes(loader_of(rows), before)
    assert found == Stale(method="", changed=("flip", "level", "epoch"), unseen=("flip", "level"))
    assert (rows.flip.share, rows.level, int(rows.epoch)) == (0.5, 2, 3)


def test_where_nothing_has_changed_nothing_is_told() -> None:
    rows = Rows()
    assert staleness.try_changes(loader_of(rows), small.copies_of(rows)) is None
    assert staleness.try_set_epoch(loader_of(rows)) is None


def test_only_attributes_that_items_read_matter() -> None:
    rows = Rows()

    def work(tell: Any, place: Any) -> None:
        staleness.find_reads(loader_of(rows), ("level", "read", "epoch"), range(3), tell, place)

    told: list[Part] = list(run_probe(work, 20.0).parts)
    assert told == [Stale(method="", changed=("level", "epoch"))]
    assert type(rows) is Rows
