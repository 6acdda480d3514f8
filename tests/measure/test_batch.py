"""How many items a batch holds, and how many bytes."""

from __future__ import annotations

import dataclasses
from collections import UserDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

from feedrate.measure.batch import fields_of, item_counter, leaves, measure_size

pytestmark = pytest.mark.torch

Pair = namedtuple("Pair", ["image", "label"])
IMAGE = torch.zeros(3, 8, 8)


class Loader:
    """What a DataLoader tells of its batches."""

    def __init__(self, batch_size: int | None, batch_sampler: object = "one") -> None:
        self.batch_size = batch_size
        self.batch_sampler = batch_sampler


UNCOLLATED = Loader(None, None)


class TokenizerBatch(UserDict):
    """As a tokenizer gives it: a mapping that moves itself."""

    def to(self, device):
        self.data = {key: value.to(device) for key, value in self.data.items()}
        return self


@dataclasses.dataclass(frozen=True)
class Sample:
    image: Any
    label: Any = None
    name: str = "sample"


class PinnedBatch:
    """As torch's documentation shows a batch class."""

    def __init__(self, rows):
        self.inputs = torch.stack([row[0] for row in rows])
        self.targets = torch.stack([row[1] for row in rows])

    def pin_memory(self):
        return self


class GraphBatch:
    """Many graphs in one: nodes are numbered through, so no extent is the number of graphs."""

    def __init__(self):
        self.x = torch.zeros(17, 4)
        self.edge_index = torch.zeros(2, 40)

    @property
    def num_graphs(self):
        return 5

    @property
    def batch_size(self):
        raise ValueError("an old version has none")

    def to(self, device):
        return self


def count(batch: Any, loader: Any = None) -> int:
    return item_counter(batch, loader)(batch)


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        (torch.zeros(5, 3), 5),
        (torch.zeros(0, 3), 0),
        (torch.tensor(3.0), 1),
        (np.zeros((6, 2)), 6),
        (np.float32(1), 1),
        ([torch.zeros(4, 3, 8, 8), torch.zeros(4)], 4),
        ((torch.zeros(4, 3), torch.zeros(4)), 4),
        ([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)], 3),
        ({"image": torch.zeros(7, 3), "label": torch.zeros(7)}, 7),
        ({"scale": torch.tensor(2.0), "image": torch.zeros(7, 3)}, 7),
        ({"a": {"b": [torch.zeros(2, 9)]}, "names": ["x", "y"]}, 2),
        (TokenizerBatch(input_ids=torch.zeros(3, 12), mask=torch.zeros(3, 12)), 3),
        (Pair(torch.zeros(9, 3), torch.zeros(9)), 9),
        (Sample(torch.zeros(8, 3), torch.zeros(8)), 8),
        (PinnedBatch([(torch.zeros(2), torch.tensor(1))] * 6), 6),
        (GraphBatch(), 5),
        (pack_sequence([torch.zeros(5), torch.zeros(3), torch.zeros(1)]), 3),
        ((pack_sequence([torch.zeros(5), torch.zeros(3)]), torch.zeros(2)), 2),
        (["a", "b", "c"], 3),
        (b"abc", 1),
        ([("a", "b", "c"), ("d", "e", "f")], 3),  # what default_collate makes of pairs of texts
        ({"text": ["a", "b", "c", "d"]}, 4),
        ({"text": "a"}, 1),
        ({"classes": ["cat", "dog"], "image": torch.zeros(7, 3)}, 7),
        ([1, 2], 2),
        ([[1, 2, 3], [4, 5]], 2),
        ("text", 1),
        (None, 1),
        ([], 0),
        ({}, 1),
        (((IMAGE, IMAGE), ({"boxes": torch.zeros(5, 4)}, {"boxes": torch.zeros(7, 4)})), 2),
        ([[torch.zeros(4, 3), torch.zeros(4, 5)], torch.zeros(4)], 4),  # two views and a label
        (torch.eye(4).to_sparse(), 4),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), 2),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_items_are_counted_as_people_count_them(batch: Any, items: int):
    assert count(batch) == items


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_without_a_shape_are_counted():
    assert count(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])) == 2


@pytest.mark.parametrize(
    ("batch", "batch_size", "items"),
    [
        ([IMAGE] * 4, 4, 4),  # a collate_fn that leaves the list as it is
        ([(IMAGE, 1)] * 4, 4, 4),
        ([{"image": IMAGE, "height": 8}] * 6, 6, 6),
        (tuple(zip(*[(IMAGE, {"boxes": torch.zeros(5, 4)})] * 4, strict=True)), 4, 4),
        ([torch.zeros(2, 3), torch.zeros(2)], 2, 2),
        ({"x": torch.zeros(50, 3), "edges": torch.zeros(2, 90), "y": torch.zeros(8)}, 8, 8),
        ([[1, 2, 3]] * 4, 4, 4),
        ([IMAGE] * 3, 3, 3),
    ],
)
def test_a_known_batch_size_tells_items_from_columns(batch: Any, batch_size: int, items: int):
    assert count(batch, Loader(batch_size)) == items


def test_the_first_batch_decides_how_later_ones_are_counted():
    counter = item_counter([IMAGE] * 4, Loader(4))
    assert counter([IMAGE] * 2) == 2  # the last batch is smaller, and not three images
    graphs = item_counter({"x": torch.zeros(50, 3), "y": torch.zeros(8)}, Loader(8))
    assert graphs({"x": torch.zeros(9, 3), "y": torch.zeros(2)}) == 2


def test_a_batch_built_otherwise_is_counted_for_itself():
    counter = item_counter([IMAGE] * 4, Loader(4))
    assert counter(torch.zeros(9)) == 9
    by_label = item_counter({"x": torch.zeros(50, 3), "y": torch.zeros(8)}, Loader(8))
    assert by_label({"x": torch.zeros(50, 3)}) == 50
    assert item_counter({"text": ["a", "b"]})(None) == 1


def test_a_batch_size_that_nothing_has_is_no_help():
    assert count([torch.zeros(5, 3), torch.zeros(5)], Loader(32)) == 5
    assert count(((IMAGE, IMAGE), (1, 2)), Loader(32)) == 3  # images alone: nothing contradicts


def test_the_sampler_may_know_the_batch_size():
    class Grouped(BatchSampler):
        pass

    grouped = Grouped(SequentialSampler(range(8)), 4, drop_last=False)
    loader = DataLoader(range(8), batch_sampler=grouped, collate_fn=lambda rows: [IMAGE] * 4)
    assert count(next(iter(loader)), loader) == 4
    as_sampler = DataLoader(torch.zeros(8, 3, 2), sampler=grouped, batch_size=None)
    assert count(next(iter(as_sampler)), as_sampler) == 4


@pytest.mark.parametrize(
    ("item", "items"),
    [
        (IMAGE, 1),
        (torch.zeros(10), 1),
        ((IMAGE, 3), 1),
        ((IMAGE, torch.tensor(3)), 1),
        ({"image": IMAGE, "name": "a.jpg"}, 1),
        ({"input_ids": torch.zeros(512), "labels": torch.zeros(512)}, 1),
        ("text", 1),
        (["a", "b"], 1),
        (5, 1),
        # datasets that batch by themselves
        (torch.zeros(8, 3, 4, 4), 8),
        ((torch.zeros(8, 3, 4, 4), torch.zeros(8)), 8),
        ({"image": torch.zeros(8, 3), "name": ["a"] * 8}, 8),
        (pack_sequence([torch.zeros(5), torch.zeros(3)]), 2),
    ],
)
def test_without_a_batch_size_it_is_one_item_unless_it_looks_like_a_batch(item: Any, items: int):
    assert count(item, UNCOLLATED) == items


ROWS = st.recursive(
    st.sampled_from([1, 2.5, "text", torch.zeros(3), torch.tensor(1), np.zeros((2, 2))]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
    ),
    max_leaves=6,
)


@given(row=ROWS, size=st.integers(1, 7))
def test_whatever_torch_collates_is_counted_when_the_batch_size_is_known(row: Any, size: int):
    counter = item_counter(default_collate([row] * size), Loader(size))
    assert counter(default_collate([row] * size)) == size


@given(row=st.sampled_from([1, torch.zeros(3), "text", {"a": torch.tensor(1), "b": "text"}]))
def test_whatever_torch_collates_is_counted_when_the_last_batch_is_smaller(row: Any):
    counter = item_counter(default_collate([row] * 6), Loader(6))
    assert [counter(default_collate([row] * size)) for size in (6, 4, 1)] == [6, 4, 1]


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (torch.zeros(5, 3), (60, 1)),
        (torch.zeros(5, 3, dtype=torch.float64), (120, 1)),
        ([torch.zeros(4), np.zeros(4)], (16 + 32, 2)),
        ({"a": {"b": torch.zeros(2)}, "c": "text", "d": 5}, (8, 1)),
        (TokenizerBatch(input_ids=torch.zeros(3, 2)), (24, 1)),
        (Pair(torch.zeros(9), torch.zeros(1)), (40, 2)),
        (Sample(torch.zeros(8)), (32, 1)),
        (PinnedBatch([(torch.zeros(2), torch.tensor(1))] * 6), (48 + 48, 2)),
        (pack_sequence([torch.zeros(5), torch.zeros(3)]), (8 * 4 + 5 * 8, 2)),
        (torch.eye(4).to_sparse(), (2 * 4 * 8 + 4 * 4, 1)),
        (["a", b"bytes"], (0, 0)),
        (None, (0, 0)),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple) else None,
)
def test_bytes_of_tensors_and_arrays_are_added_up(batch: Any, size: tuple[int, int]):
    assert measure_size(batch) == size


def test_leaves_come_in_the_batchs_order():
    batch = {"a": [1, (2, 3)], "b": Pair(4, Sample(5, 6, "seven"))}
    assert list(leaves(batch)) == [1, 2, 3, 4, 5, 6, "seven"]


def test_batch_classes_that_hold_each_other_are_walked_once():
    first, second = PinnedBatch([(torch.zeros(2), torch.tensor(1))]), GraphBatch()
    first.other, second.other = second, first  # type: ignore[attr-defined]
    assert measure_size(first)[1] == 4


def test_fields_of_a_dataclass_whose_field_was_never_set():
    @dataclasses.dataclass
    class Lazy:
        given: int
        later: int = dataclasses.field(init=False)

    assert fields_of(Lazy(1)) == {"given": 1}
    assert fields_of(Sample) is None
    assert fields_of("text") is None
