"""One batch again and again: each time as it came."""

from __future__ import annotations

import collections
import dataclasses
from collections import UserDict
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils.rnn import pack_sequence

from feedrate.measure.cached import CachedBatch

pytestmark = pytest.mark.torch
Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Framed:
    x: Any
    y: Any


class Encoding(UserDict):  # type: ignore[type-arg]
    def to(self, device: str) -> Encoding:
        return self


class Bag(list):  # type: ignore[type-arg]
    pass


def test_a_batch_that_no_step_changes_is_not_copied_again() -> None:
    cached = CachedBatch([torch.ones(3), {"y": torch.zeros(2)}])
    first, second = cached.give(), cached.give()
    assert first is not second
    assert first[1] is not second[1]
    assert first[0] is second[0]


def test_a_tensor_that_a_step_changed_comes_as_it_was() -> None:
    cached = CachedBatch((torch.ones(3), torch.zeros(2)))
    x, y = cached.give()
    x.mul_(5)
    again, same = cached.give()
    assert again.tolist() == [1.0] * 3
    assert same is y


def test_the_batch_it_was_made_of_may_be_changed_too() -> None:
    batch = torch.ones(3)
    cached = CachedBatch(batch)
    batch.zero_()
    assert cached.give().tolist() == [1.0] * 3


def test_a_part_that_a_step_takes_out_is_there_again() -> None:
    cached = CachedBatch({"x": torch.ones(1), "names": ["a"], "array": np.ones(2)})
    batch = cached.give()
    batch.pop("x")
    batch["names"].append("b")
    batch["array"][:] = 7
    again = cached.give()
    assert list(again) == ["x", "names", "array"]
    assert again["names"] == ["a"]
    assert again["array"].tolist() == [1.0, 1.0]


def test_a_gradient_that_a_step_asks_for_does_not_stay() -> None:
    cached = CachedBatch(torch.ones(3))
    batch = cached.give().requires_grad_()
    (batch * 2).sum().backward()
    again = cached.give()
    assert not again.requires_grad
    assert again.grad is None


def test_inference_tensors() -> None:
    with torch.inference_mode():
        cached = CachedBatch(torch.ones(3))
        cached.give().zero_()
        assert cached.give().tolist() == [1.0] * 3


@pytest.mark.parametrize(
    "batch",
    [
        Pair(torch.ones(2), torch.zeros(1)),
        Framed(torch.ones(2), 3),
        Encoding({"x": torch.ones(2)}),
        collections.OrderedDict(x=torch.ones(2)),
        Bag([torch.ones(2), 1]),
        pack_sequence([torch.ones(3), torch.ones(2)]),
        "text",
        7,
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_structures_keep_their_type(batch: Any) -> None:
    given = CachedBatch(batch).give()
    assert type(given) is type(batch)
    assert repr(given) == repr(batch)
