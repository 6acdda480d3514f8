"""The parts of an examination by themselves: walking, handles, pickling, types, digests."""

from __future__ import annotations

import collections
import functools
import io
import sqlite3
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

from feedrate.measure.examined import Duel, Stream, Unpicklable
from feedrate.measure.examining import randomness, streams
from feedrate.measure.examining.digests import UNKNOWN, Digests, digest
from feedrate.measure.examining.handles import find_handles
from feedrate.measure.examining.indices import choose, is_plain
from feedrate.measure.examining.leaves import build_of, describe
from feedrate.measure.examining.objects import count_objects
from feedrate.measure.examining.pickling import try_pickling
from feedrate.measure.examining.walking import walk

pytestmark = pytest.mark.torch


class Holder:
    """Holds whatever it is given."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


def double(value: int) -> int:
    return value * 2


def test_everything_below_is_walked_once_with_the_way_to_it() -> None:
    inner = Holder(x=3)
    loop: list[Any] = [inner]
    loop.append(loop)
    root = Holder(parts={"a": inner}, rows=loop, call=functools.partial(double, inner))
    ways = dict(walk(root, "dataset"))
    assert ways["dataset.parts['a']"] is inner
    assert ways["dataset.call.func"] is double
    assert sum(value is inner for value in ways.values()) == 1


def test_what_a_lambda_closes_over_is_walked() -> None:
    with tempfile.TemporaryFile() as file:
        handles = find_handles([("collate_fn", lambda items: (items, file))])
    assert [handle.path for handle in handles] == ["collate_fn (file)"]


def test_open_handles_are_found_and_named() -> None:
    lock, free = threading.Lock(), threading.Lock()
    data = io.BytesIO()
    with (
        lock,
        tempfile.TemporaryFile() as file,
        zipfile.ZipFile(data, "w") as archive,
    ):
        base = sqlite3.connect(":memory:")
        held = Holder(f=file, db={"train": base}, z=archive, lock=lock, free=free, data=data)
        found = {each.path: each.family for each in find_handles([("dataset", held)])}
        base.close()
    assert found == {
        "dataset.f": "file",
        "dataset.db['train']": "database",
        "dataset.z": "archive",
        "dataset.lock": "lock",
    }


def test_what_is_closed_is_no_handle(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", "y")
    with (tmp_path / "b").open("w") as file:
        pass
    assert find_handles([("dataset", Holder(a=archive, f=file))]) == ()


def test_the_innermost_thing_that_cannot_be_pickled_is_named() -> None:
    root = Holder(good=[1, 2], transform=Holder(steps=[double, lambda x: x]))
    pickled = try_pickling([("dataset", root), ("collate_fn", double)])
    assert pickled.bytes is None
    (fault,) = pickled.failed
    assert (fault.path, fault.kind) == ("dataset.transform.steps[1]", "a lambda")
    assert isinstance(fault, Unpicklable)


def test_what_can_be_pickled_is_weighed_and_locks_too() -> None:
    lock = torch.multiprocessing.get_context("spawn").Lock()
    rows = np.zeros(100_000, dtype=np.uint8)
    pickled = try_pickling([("dataset", Holder(rows=rows, lock=lock))])
    assert pickled.failed == ()
    assert pickled.bytes is not None
    assert 100_000 < pickled.bytes < 101_000


def test_objects_are_counted_without_the_buffers_of_arrays() -> None:
    flat = count_objects(Holder(rows=np.zeros(10**6)))
    assert flat.bytes < 10_000
    rows = [{"name": f"picture {number}"} for number in range(1000)]
    counted = count_objects(Holder(rows=rows, few=[1]))
    assert counted.whole
    assert counted.count >= 2000
    assert counted.path == "dataset.rows"
    named = np.array([f"picture {number}" for number in range(1000)], dtype=object)
    assert count_objects(Holder(rows=named)).count >= 1000


def test_the_parts_of_an_item_are_described() -> None:
    image = torch.randint(0, 256, (3, 32, 32)).float() / 255
    rows = torch.zeros(1000, 1000)
    parts = describe({"x": image, "y": [rows[0, :5], np.zeros(3)], "id": 3}, "item")
    assert [(each.path, each.dtype, each.values) for each in parts] == [
        ("item['x']", "float32", "unit"),
        ("item['y'][0]", "float32", ""),
        ("item['y'][1]", "float64", ""),
    ]
    assert (parts[1].bytes, parts[1].storage_bytes) == (20, 4_000_000)
    assert describe((image * 255).round().double(), "item")[0].values == "bytes"
    assert describe(torch.rand(3, 32, 32), "item")[0].values == ""


def test_items_are_compared_by_their_shapes() -> None:
    assert build_of((torch.ones(3), 1), "item") == build_of((torch.zeros(3), 2), "item")
    assert build_of(torch.ones(3), "item") != build_of(torch.ones(4), "item")


def test_digests_tell_values_types_and_shapes_apart() -> None:
    same = [digest({"x": torch.ones(3), "y": "a"}) for _ in range(2)]
    assert same[0] == same[1]
    others = [torch.ones(3).double(), torch.ones(1, 3), torch.zeros(3), [torch.ones(3), "b"]]
    assert len({digest(each) for each in others} | set(same)) == 5
    assert digest(lambda: None) == UNKNOWN
    assert Digests()([torch.ones(3), 2]) == (-1, [digest(torch.ones(3)), digest(2)])
    assert Digests(single=True)([1, 2]) == (-1, [digest([1, 2])])


def loader_of(length: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(length)), **options)


def test_indices_are_the_first_the_last_and_some_between() -> None:
    chosen = choose(loader_of(10_000, shuffle=True), 64)
    assert len(set(chosen)) == 64
    assert chosen[:3] == [0, 1, 2]
    assert 9999 in chosen
    assert choose(loader_of(5), 64) == [0, 1, 2, 3, 4]


def test_indices_of_ones_own_sampler_are_what_it_draws() -> None:
    loader = loader_of(100, sampler=SubsetRandomSampler([3, 5, 7]), batch_size=2)
    assert not is_plain(loader)
    assert sorted(choose(loader, 64)) == [3, 5, 7]


def test_draws_are_compared_item_by_item() -> None:
    # worker 0, worker 1, and each of them again
    differ = ["a", "b", "c", "d"]
    copied = ["a", "a", "c", "c"]
    fixed = ["a", "a", "a", "a"]
    judged = randomness.judge(differ, ["e", "f", "g", "h"], ("random",), kept=False)
    assert (judged.varying, judged.workers_same, judged.epochs_same) == (1, 0, 0)
    judged = randomness.judge(copied + copied, copied + differ, ("random",), kept=False)
    assert (judged.varying, judged.workers_same, judged.epochs_same) == (2, 2, 1)
    judged = randomness.judge(fixed, fixed, ("random",), kept=True)
    assert (judged.items, judged.varying) == (1, 0)
    judged = randomness.judge(["a", UNKNOWN, "b", "c"], differ, (), kept=False)
    assert judged.items == 0


def test_items_of_a_stream_that_come_from_two_workers_are_counted() -> None:
    alone = Stream(single=100, shares=(), whole=True)
    items = [collections.Counter(map(str, range(100))) for _ in range(2)]
    judged = streams.judge(alone, [100, 100], items, whole=True)
    assert (judged.repeated, judged.compared, judged.distinct) == (100, 100, 100)
    shared = [collections.Counter(map(str, range(first, 100, 2))) for first in (0, 1)]
    assert streams.judge(alone, [50, 50], shared, whole=True).repeated == 0


def test_a_duel_is_clear_where_no_window_overlaps() -> None:
    duel = Duel(question="more", value=8, own=(10.0, 12.0), other=(20.0, 24.0))
    assert (duel.gain, duel.is_clear) == (2.0, True)
    assert not Duel(question="more", value=8, own=(10.0, 21.0), other=(20.0, 24.0)).is_clear
