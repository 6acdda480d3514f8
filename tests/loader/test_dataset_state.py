"""Whether a dataset was changed is seen from its attributes, however deep, and nothing else."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from feedrate.loader.dataset_state import state_of

pytestmark = pytest.mark.torch


class Holder:
    """An object with whatever attributes."""

    def __init__(self, **named: Any) -> None:
        vars(self).update(named)

    def method(self, _: Any) -> None: ...


class Transform:
    def __init__(self) -> None:
        self.size = 32

    def __call__(self, thing: Any) -> Any:
        return thing


class Lazy(list[int]):
    """Reads its elements only when asked."""

    def __iter__(self) -> Any:
        raise AssertionError("not to be read")

    __getitem__ = __len__ = __iter__


class Guarded:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is not to be asked for")


def make() -> Any:
    transform = Transform()
    inner = Holder(transform=transform, steps=[transform, len], sizes={"train": (32, 32)})
    return Holder(
        inner=inner,
        epoch=0,
        name="train",
        rows=list(range(1000)),
        table=torch.zeros(3),
        mean=float("nan"),
        collate=functools.partial(print, inner),
        bound=transform.__call__,
        lock=threading.Lock(),
        counter=itertools.count(),
        lazy=Lazy(),
        guarded=Guarded(),
        kinds={1, 2, "x"},
        kind=Holder,
    )


def test_what_nobody_changed_is_the_same() -> None:
    thing = make()
    thing.itself = thing
    assert state_of(thing) == state_of(thing)
    assert state_of(thing.method) == state_of(thing.method)  # made anew each time


@pytest.mark.parametrize(
    "change",
    [
        lambda thing: setattr(thing, "epoch", 1),
        lambda thing: setattr(thing.inner.transform, "size", 64),
        lambda thing: setattr(thing.inner, "transform", Transform()),
        lambda thing: thing.inner.steps.append(print),
        lambda thing: thing.inner.sizes.update(train=(64, 64)),
        lambda thing: thing.rows.append(0),
        lambda thing: thing.table.add_(1),
        lambda thing: thing.kinds.add(3),
        lambda thing: setattr(thing, "new", 1),
        lambda thing: delattr(thing, "lock"),
        lambda thing: setattr(thing, "epoch", False),
    ],
)
def test_a_change_is_seen(change: Callable[[Any], None]) -> None:
    thing = make()
    before = state_of(thing)
    change(thing)
    assert state_of(thing) != before


def test_a_bound_method_is_looked_through() -> None:
    thing = Holder(call=Transform().__call__)
    before = state_of(thing)
    thing.call.__self__.size = 64
    assert state_of(thing) != before


def test_a_large_tree_is_looked_at_in_part() -> None:
    deep: Any = 0
    for _ in range(10_000):
        deep = [deep]
    wide = [[[number] for _ in range(60)] for number in range(60)]
    assert state_of(deep, wide) == state_of(deep, wide)
    before = state_of(wide, deep)
    wide[0].append([])
    assert state_of(wide, deep) != before
