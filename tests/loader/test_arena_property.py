"""Any batch arrives equal through real workers, however they are started."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import arena_values as values

from feedrate.loader.dataloader import DataLoader

pytestmark = pytest.mark.torch

SEEDS = st.integers(0, 2**16)
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
LARGE = st.just((300, 301))  # a slot larger than the ones before it
NAMES = st.text(max_size=5)

PLAIN = st.tuples(
    st.just("tensor"), st.sampled_from(values.DTYPES), SHAPES | LARGE, st.just("plain"), SEEDS
)
TENSORS = st.tuples(
    st.just("tensor"),
    st.sampled_from(values.DTYPES),
    SHAPES,
    st.sampled_from(list(values.VIEWS)),
    SEEDS,
)
ARRAYS = st.tuples(
    st.just("array"),
    st.sampled_from(values.ARRAYS),
    st.lists(st.integers(0, 40), max_size=2).map(tuple),
    st.sampled_from(["C", "F", "stepped"]),
    SEEDS,
)
LEAVES = st.one_of(
    TENSORS,
    PLAIN,
    ARRAYS,
    st.tuples(
        st.just("grad"),
        st.sampled_from([*values.REAL, "complex64"]),
        SHAPES,
        st.sampled_from(list(values.VIEWS)),
        SEEDS,
    ),
    st.tuples(
        st.just("conjugate"),
        st.sampled_from(["complex64", "complex128"]),
        SHAPES,
        st.sampled_from(["whole", "imag", "real"]),
        SEEDS,
    ),
    st.tuples(
        st.just("packed"), st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), SEEDS
    ),
    st.tuples(st.just("text"), NAMES, st.sampled_from([0, 1, 40_000])),
    st.tuples(st.just("bytes"), st.binary(max_size=50), st.sampled_from([0, 1, 5000])),
    st.tuples(
        st.just("object"),
        st.none()
        | st.integers()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.complex_numbers(allow_nan=False)
        | st.frozensets(st.integers(), max_size=3),
    ),
    st.tuples(st.just("twice"), TENSORS | ARRAYS),
)

# What torch's default_collate takes, and collates into the slot.
COLLATED = st.tuples(
    st.just("collated"),
    st.recursive(
        PLAIN | TENSORS | st.tuples(st.just("object"), st.integers(0, 9) | st.floats(0, 1)),
        lambda inner: (
            st.tuples(st.just("dict"), st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple))
            | st.tuples(st.just("tuple"), st.lists(inner, min_size=1, max_size=3).map(tuple))
            | st.tuples(st.just("point"), inner, inner)
        ),
        max_leaves=5,
    ),
    st.integers(1, 5),
)

BATCHES = st.recursive(
    LEAVES | COLLATED,
    lambda inner: (
        st.tuples(st.just("list"), st.lists(inner, max_size=4).map(tuple))
        | st.tuples(st.just("tuple"), st.lists(inner, max_size=4).map(tuple))
        | st.tuples(st.just("dict"), st.lists(st.tuples(NAMES, inner), max_size=4).map(tuple))
        | st.tuples(st.just("point"), inner, inner)
        | st.tuples(st.just("sample"), inner, NAMES)
    ),
    max_leaves=10,
)


@pytest.mark.filterwarnings("ignore:ComplexHalf")  # torch calls it experimental
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_any_batch_arrives_equal(method: str) -> None:
    feed = values.Feed()
    loader: Any = DataLoader(
        values.Made(),
        batch_size=None,
        sampler=feed,
        collate_fn=values.as_is,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=method,
    )

    @settings(max_examples=60)
    @given(st.lists(BATCHES, min_size=1, max_size=5))
    def check(descriptions: list[Any]) -> None:
        feed.descriptions = descriptions
        arrived = list(loader)  # all are kept, so no slot may be used twice
        sent = [values.make(each) for each in descriptions]
        assert len(arrived) == len(sent)
        assert [values.difference(*pair) for pair in zip(sent, arrived, strict=True)] == (
            [None] * len(sent)
        )

    check()


def test_a_difference_is_told() -> None:
    one = values.make(("list", (("tensor", "float32", (3,), "plain", 1), ("text", "a", 1))))
    assert values.difference(one, one) is None
    for other in (
        [one[0] + 1, "a"],
        [one[0], "b"],
        [one[0].double(), "a"],
        [one[0].requires_grad_(False).clone().requires_grad_(), "a"],
        (one[0], "a"),
        one[:1],
    ):
        assert values.difference(one, other) is not None
    array = values.make(("array", "<f4", (3,), "C", 1))
    assert values.difference(array, array + 1) is not None
