"""SharedList and SharedDict: what goes in comes out, in every process, and nothing is left."""

from __future__ import annotations

import collections
import decimal
import enum
import fractions
import gc
import math
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedrate.remedies.shared_dict import SharedDict
from feedrate.remedies.shared_list import SharedList

Point = collections.namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 1


def exactly(one: Any, other: Any) -> bool:
    """Equal, down to every type; NaN equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(exactly(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(exactly, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other)))


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.just(Colour.RED),
    st.just(Point(1, "y")),
    st.just(np.float64(1.5)),
    st.just(np.arange(3)),
    st.just(collections.OrderedDict(a=1)),
)
records = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(records, max_size=6))
def test_every_record_comes_back_with_its_very_types(items: list[Any]) -> None:
    shared = SharedList(items)
    assert len(shared) == len(items)
    assert all(map(exactly, shared, items))
    assert all(exactly(shared[i], items[i]) for i in range(len(items)))


def test_it_reads_as_a_list_does() -> None:
    plain = [{"path": f"{i}.jpg", "label": i} for i in range(50)]
    shared = SharedList(plain)
    assert shared[-1] == plain[-1]
    assert shared[3:20:5] == plain[3:20:5]
    assert shared[::-1] == plain[::-1]
    assert shared[np.int64(7)] == plain[7]
    assert plain[4] in shared
    assert shared.index(plain[9]) == 9
    for index in (50, -51):
        with pytest.raises(IndexError, match="SharedList of 50"):
            shared[index]
    with pytest.raises(TypeError):
        shared["a"]  # type: ignore[call-overload]


def test_what_is_read_is_the_readers_own() -> None:
    shared = SharedList([[1, 2]])
    shared[0].append(3)
    assert shared[0] == [1, 2]


def test_what_cannot_be_packed_is_named() -> None:
    with pytest.raises(TypeError, match="item 1 of type function cannot be packed"):
        SharedList([1, lambda: None])


def read_all(shared: Any, answers: Any) -> None:
    answers.put([shared[i] for i in range(len(shared))] if isinstance(shared, SharedList) else 0)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_another_process_reads_it_however_it_is_started(method: str) -> None:
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    process = context.Process(target=read_all, args=(SharedList(["a", (1, 2)]), answers))
    process.start()
    assert answers.get() == ["a", (1, 2)]
    process.join()
    answers.close()


def test_a_copy_pickled_in_this_process_outlives_the_first() -> None:
    shared = SharedList(range(5))
    copy = pickle.loads(pickle.dumps(shared))
    del shared
    gc.collect()
    assert list(copy) == [0, 1, 2, 3, 4]


def test_a_list_that_is_gone_is_not_read_by_its_name() -> None:
    words = pickle.dumps(SharedList(range(5)))
    gc.collect()
    descriptor = os.open(os.devnull, os.O_RDONLY)  # may have the number that the list had
    try:
        with pytest.raises(OSError, match="does not hold the shared records any more"):
            pickle.loads(words)
    finally:
        os.close(descriptor)


def test_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "records"
    shared = SharedList(["x" * 1000] * 10, file=str(file))
    assert file.stat().st_size > 10_000
    assert pickle.loads(pickle.dumps(shared))[9] == "x" * 1000


def test_an_iterable_that_raises_leaves_nothing() -> None:
    def items() -> Any:
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        SharedList(items())


keys = st.one_of(
    st.text(), st.integers(), st.floats(allow_nan=False), st.none(), st.binary(),
    st.tuples(st.text(), st.integers()),
)  # fmt: skip


@settings(deadline=None)
@given(st.dictionaries(keys, st.integers(), max_size=30), st.lists(keys, max_size=10))
def test_a_shared_dict_is_that_dict(plain: dict[Any, int], asked: list[Any]) -> None:
    shared = SharedDict(plain)
    assert list(shared.items()) == list(plain.items())
    for key in [*plain, *asked]:
        assert shared.get(key) == plain.get(key)
        assert (key in shared) == (key in plain)


def test_keys_that_are_equal_are_one() -> None:
    shared = SharedDict({1: "one", "1": "text"})
    assert shared[True] == shared[1.0] == "one"  # type: ignore[index]
    with pytest.raises(KeyError):
        shared[2]
    with pytest.raises(TypeError, match="unhashable"):
        shared[[1]]  # type: ignore[index]
    with pytest.raises(TypeError, match="keys are strings"):
        SharedDict({frozenset((1,)): 2})


class Word(str):
    __slots__ = ()


class Name(str, enum.Enum):
    X = "x"


@pytest.mark.parametrize(
    "key",
    [
        5, 5.0, np.int64(5), np.uint8(5), np.float32(5), np.float64(5), complex(5), np.complex64(5),
        decimal.Decimal(5), fractions.Fraction(5), True, 1, np.bool_(True), Colour.RED, 0, False,
        -0.0, 0.5, np.float16(0.5), 2**61 + 4, 2**80, float(2**80), -1, -2, 6, math.nan, math.inf,
        "x", np.str_("x"), Word("x"), Name.X, b"x", np.bytes_(b"x"), "\udcff", "N",
        None, (1, "y"), Point(1, "y"), (np.int8(1), np.str_("y")), (1.0, "y"), ((1,), "y"), (), "",
        b"", np.datetime64("2020-01-01"), np.timedelta64(5, "s"), frozenset({5}), len,
    ],
    ids=repr,
)  # fmt: skip
def test_a_key_is_found_by_whatever_finds_it_in_a_dict(key: Any) -> None:
    plain: dict[Any, str] = {
        5: "five", 1: "one", 0: "zero", 0.5: "half", 2**80: "much", -1: "less", None: "none",
        "x": "text", b"x": "bytes", "\udcff": "path", (1, "y"): "tuple",
    }  # fmt: skip
    shared = SharedDict(plain)
    assert (key in shared) == (key in plain)
    assert shared.get(key) == plain.get(key)


def look_up(shared: SharedDict[Any, int], answers: Any) -> None:
    answers.put([shared.get(key) for key in (7, "y", 1, (1, "y"), np.float64(2.5))])


def test_keys_of_other_types_are_kept_and_found_in_every_process() -> None:
    plain = {np.int64(7): 0, np.str_("y"): 1, Colour.RED: 2, Point(1, "y"): 3, 2.5: 4}
    shared = SharedDict(plain)
    assert list(map(type, shared)) == list(map(type, plain))
    context = multiprocessing.get_context("spawn")  # where the hash of a text is another one
    answers = context.SimpleQueue()
    process = context.Process(target=look_up, args=(shared, answers))
    process.start()
    assert answers.get() == [0, 1, 2, 3, 4]
    process.join()
    answers.close()


def test_a_key_whose_hash_is_another_one_in_each_process_is_refused() -> None:
    with pytest.raises(TypeError, match="keys are strings"):
        SharedDict({np.timedelta64(5, "s"): 1})


def test_a_shared_dict_pickles_by_name() -> None:
    shared = SharedDict({f"k{i}": i for i in range(1000)})
    words = pickle.dumps(shared)
    assert len(words) < 1000
    assert pickle.loads(words)["k777"] == 777
