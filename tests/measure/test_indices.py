"""The list behind the indices, found in what torch's samplers run through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from feedrate.loader.torch_private import index_iterator
from feedrate.measure.indices import index_list

pytestmark = pytest.mark.torch

COUNT = 200_000


class Blocks(Sampler[int]):
    """Shuffles blocks, and within them."""

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        for start in range(0, COUNT, 1000):
            yield from (torch.randperm(1000) + start).tolist()


def begun(sampler: Any) -> Any:
    """Return a sampler's iterator after its first index."""
    iterator = iter(sampler)
    next(iterator)
    return iterator


@pytest.mark.parametrize(
    "sampler",
    [
        RandomSampler(range(COUNT)),
        WeightedRandomSampler([1.0] * COUNT, COUNT),
        DistributedSampler(range(COUNT), num_replicas=1, rank=0),  # type: ignore[arg-type]
        SubsetRandomSampler(list(range(COUNT))),
        BatchSampler(RandomSampler(range(COUNT)), 10, drop_last=True),
        BatchSampler(RandomSampler(range(COUNT)), 10, drop_last=False),
    ],
    ids=["random", "weighted", "distributed", "subset", "batches", "whole batches"],
)
def test_the_list_that_a_sampler_makes_is_found(sampler: Any) -> None:
    found = index_list(begun(sampler))
    assert found is not None
    # a list has 8 bytes for each, a number takes 32, or nothing of its own if it is small
    assert 0.9 * COUNT <= found.count <= COUNT
    assert 30 * found.count <= found.list_bytes <= 42 * found.count


@pytest.mark.parametrize(
    "sampler",
    [
        SequentialSampler(range(COUNT)),
        RandomSampler(range(COUNT), replacement=True),
        Blocks(),
        BatchSampler(Blocks(), 10, drop_last=False),
        RandomSampler(range(1000)),
    ],
    ids=["in order", "with replacement", "in blocks", "batches of blocks", "short"],
)
def test_samplers_that_make_none_have_none(sampler: Any) -> None:
    assert index_list(begun(sampler)) is None


class Given(Sampler[int]):
    def __init__(self) -> None:
        self.indices = list(range(COUNT))

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)


@pytest.mark.parametrize("sampler", [list(range(COUNT)), Given()], ids=["a list", "a sampler"])
def test_a_list_that_the_sampler_has_anyway_is_not_made_for_an_epoch(sampler: Any) -> None:
    loader: DataLoader[int] = DataLoader(range(COUNT), batch_size=10, sampler=sampler)  # type: ignore[arg-type]
    iterator = iter(loader)
    next(iterator)
    assert index_list(index_iterator(iterator), loader) is None


def test_the_next_index_is_not_drawn() -> None:
    torch.manual_seed(0)
    expected = list(RandomSampler(range(COUNT)))
    torch.manual_seed(0)
    iterator = begun(RandomSampler(range(COUNT)))
    index_list(iterator)
    assert list(iterator) == expected[1:]


def test_it_is_found_from_a_loaders_iterator() -> None:
    loader: DataLoader[int] = DataLoader(range(COUNT), batch_size=10, shuffle=True)  # type: ignore[arg-type]
    iterator = iter(loader)
    next(iterator)
    assert index_list(index_iterator(iterator), loader) is not None
    assert index_list(index_iterator(object())) is None
