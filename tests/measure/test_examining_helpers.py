"""What helps trials: copies that are counted, files that are heard of, set-ups of workers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from feedrate.measure.examined import Copies, Growth, Part, Setup
from feedrate.measure.examining.collating import time_collate
from feedrate.measure.examining.copies import CopyWatch
from feedrate.measure.examining.opened import OpenedFiles
from feedrate.measure.examining.probe import AVAILABLE, run_probe
from feedrate.measure.examining.running import read_setup
from feedrate.measure.examining.setting_up import AllCpus, MoreThreads, OneThread

pytestmark = pytest.mark.torch


def test_copies_are_counted_with_what_they_say_and_nothing_stays_replaced() -> None:
    before = torch.Tensor.to, torch.Tensor.cuda
    batch, other = torch.zeros(4, 8), torch.zeros(2, dtype=torch.int64)
    with CopyWatch() as watch:
        assert watch.is_watching
        batch.to("meta", non_blocking=True)  # a device that every machine has
        batch.to("meta", torch.float64, True)
        batch.to(device="meta")
        other.to(torch.float32)  # no copy to a device
        batch.to("cpu", non_blocking=True)
    assert watch.told() == Copies(count=3, asked=2, pageable=2, bytes=2 * batch.nbytes)
    assert not watch.is_watching
    assert (torch.Tensor.to, torch.Tensor.cuda) == before
    assert "to" not in vars(torch.Tensor)


def test_a_step_without_copies_tells_none_and_an_error_passes_through() -> None:
    watch = CopyWatch()

    def step() -> None:
        with watch:
            torch.zeros(1).to(torch.float64)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step()
    assert watch.told() is None
    assert "to" not in vars(torch.Tensor)


@pytest.mark.skipif(not AVAILABLE, reason="a hook stays: it needs a process of its own")
def test_files_that_items_open_are_heard_of(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(b"x")

    def work(tell: Any, _: Any) -> None:
        opened = OpenedFiles()
        np.fromfile(tmp_path / "a.bin", dtype=np.uint8)
        (tmp_path / "b.bin").read_bytes()
        (tmp_path / "b.bin").read_bytes()
        (tmp_path / "written").write_bytes(b"")
        Path(os.devnull).read_bytes()
        Path(np.__file__).read_bytes()
        with pytest.raises(OSError, match="none"):
            (tmp_path / "none").read_bytes()
        for place, path in enumerate(opened.found()):
            tell(Growth(items=place, bytes=0, early=0.0, late=0.0, path=path))

    told = run_probe(work, 20.0)
    assert (told.end, told.text) == ("done", "")
    paths = [part.path for part in told.parts if isinstance(part, Growth)]
    assert paths == [str(tmp_path / "a.bin"), str(tmp_path / "b.bin")]


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return torch.full((8,), float(index)), index


def slow_default(items: list[Any]) -> Any:
    time.sleep(0.01)
    return default_collate(items)


def other(items: list[Any]) -> Any:
    return [label for _, label in items]


def fails(items: list[Any]) -> Any:
    raise ValueError(len(items))


def timed(collate: Any) -> Any:
    loader: DataLoader[Any] = DataLoader(Rows(), batch_size=16, collate_fn=collate)
    return time_collate(loader, range(64), 1e-5)


def test_collating_is_timed_against_torchs_own_where_that_makes_the_same() -> None:
    slow = timed(slow_default)
    assert slow.items == 16
    assert slow.seconds >= 0.01 > slow.default
    assert timed(other).default is None
    assert timed(None).default is None  # torch's own: there is nothing to compare with
    assert timed(fails) is None
    loader: DataLoader[Any] = DataLoader(Rows(), batch_size=16)
    assert time_collate(loader, range(64), 60.0) is None  # no time for such items


class Init:
    """A ``worker_init_fn`` of the user's own."""

    def __init__(self) -> None:
        self.called: list[int] = []

    def __call__(self, worker: int) -> None:
        self.called.append(worker)


@pytest.mark.parametrize("make", [OneThread, lambda own: AllCpus(own, _cpus())])
def test_what_a_trial_sets_in_a_worker_comes_after_the_users_own(make: Any) -> None:
    init = Init()
    make(init)(3)
    assert init.called == [3]
    make(None)(0)


def test_a_worker_can_be_given_more_of_torchs_threads() -> None:
    init, before = Init(), torch.get_num_threads()
    try:
        MoreThreads(init, 3)(1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert init.called == [1]


def _cpus() -> tuple[int, ...]:
    get = getattr(os, "sched_getaffinity", None)
    return () if get is None else tuple(get(0))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity to change")
def test_cpus_that_an_import_has_taken_are_seen_and_given_back() -> None:
    def work(tell: Any, _: Any) -> None:
        cpus = _cpus()
        loader: DataLoader[Any] = DataLoader(TensorDataset(torch.zeros(4)))
        os.sched_setaffinity(0, cpus[:1])
        tell(read_setup(loader, None, cpus=len(cpus)))
        AllCpus(None, cpus)(0)
        tell(read_setup(loader, None, cpus=len(cpus)))

    setups: list[Part] = list(run_probe(work, 20.0).parts)
    seen = [(s.affinity, s.affinity_before) for s in setups if isinstance(s, Setup)]
    assert seen == [(1, len(_cpus())), (len(_cpus()), len(_cpus()))]
