from __future__ import annotations

import os
import types
from collections.abc import Callable

import psutil
import pytest

from feedrate.host.files import FakeReader
from feedrate.host.limits import ShmSpace
from feedrate.host.memory import TreeSampler, add_readings, parse_smaps_rollup
from feedrate.memory_records import MemoryReading

MAIN, FIRST, SECOND, GONE = 5_000_001, 5_000_002, 5_000_003, 5_000_004  # above any Linux pid

ROLLUP = """\
556196f38000-7ffe2cd31000 ---p 00000000 00:00 0                          [rollup]
Rss:                1616 kB
Pss:                 379 kB
Pss_Dirty:           112 kB
Pss_Anon:            112 kB
Pss_File:            267 kB
Pss_Shmem:            12 kB
Shared_Clean:       1400 kB
Shared_Dirty:         40 kB
Private_Clean:        64 kB
Private_Dirty:       112 kB
Referenced:         1616 kB
Anonymous:           130 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:    2048 kB
Swap:                  0 kB
"""
# of Linux 4.14, which has neither of Pss_File, Pss_Shmem, Private_Hugetlb
OLD_ROLLUP = """\
00400000-ffffffff ---p 00000000 00:00 0                                  [rollup]
Rss:                 200 kB
Pss:                 100 kB
Shared_Clean:         90 kB
Shared_Dirty:         10 kB
Private_Clean:        30 kB
Private_Dirty:        70 kB
Anonymous:            80 kB
"""


def tree() -> FakeReader:
    """A main process with two workers and a child that has gone."""
    texts = {MAIN: ROLLUP, FIRST: OLD_ROLLUP, SECOND: OLD_ROLLUP}
    files: dict[str, str] = {}
    for pid, text in texts.items():
        files[f"/proc/{pid}/stat"] = f"{pid} (python) S 1 " + "0 " * 30
        files[f"/proc/{pid}/cmdline"] = "python\0train.py\0"
        files[f"/proc/{pid}/smaps_rollup"] = text
        files[f"/proc/{pid}/task/{pid}/children"] = ""
        for number in range(3 if pid == MAIN else 2):
            files[f"/proc/{pid}/fd/{number}"] = ""
    files[f"/proc/{MAIN}/task/{MAIN}/children"] = f"{FIRST} {GONE} {SECOND} "
    return FakeReader(files)


def sampler(
    reader: FakeReader, shm: Callable[[], ShmSpace | None] = lambda: ShmSpace(1000, 400)
) -> TreeSampler:
    return TreeSampler(MAIN, reader, shm)


def test_rollup_in_bytes() -> None:
    assert parse_smaps_rollup(ROLLUP) == MemoryReading(
        rss=1616 * 1024,
        pss=379 * 1024,
        uss=(64 + 112 + 2048) * 1024,
        anonymous=130 * 1024,
        private_dirty=112 * 1024,
        shared_dirty=40 * 1024,
        pss_file=267 * 1024,
        pss_shmem=12 * 1024,
    )


def test_rollup_of_an_older_kernel() -> None:
    reading = parse_smaps_rollup(OLD_ROLLUP)
    assert (reading.uss, reading.pss_file, reading.pss_shmem) == (100 * 1024, None, None)


@pytest.mark.parametrize("text", ["", "556196f38000-7ffe2cd31000 ---p 00000000 00:00 0 [rollup]\n"])
def test_rollup_of_a_process_that_ended(text: str) -> None:
    with pytest.raises(ValueError, match="ended"):
        parse_smaps_rollup(text)


def test_readings_added_up() -> None:
    one = MemoryReading(rss=5, pss=3, uss=1, pss_file=2)
    two = MemoryReading(rss=7, pss=4, uss=2)
    assert add_readings([one, two]) == MemoryReading(rss=12, pss=7, uss=3)
    assert add_readings([one]) == one
    assert add_readings([]) is None


def test_what_a_copy_has_in_common_with_its_originals_is_counted_as_its_own() -> None:
    reader = tree()
    first, second = 5_000_010, 5_000_011
    for pid, text in ((first, ROLLUP), (second, OLD_ROLLUP)):
        reader.files[f"/proc/{pid}/smaps_rollup"] = text

    def main_of(*originals: int) -> MemoryReading:
        snapshot = TreeSampler(MAIN, reader, originals=originals).sample(0)
        assert snapshot is not None
        return snapshot.main

    alone = parse_smaps_rollup(ROLLUP)
    one = main_of(first, GONE)
    assert (one.pss, one.pss_file, one.pss_shmem) == (2 * 379 * 1024, 2 * 267 * 1024, 2 * 12 * 1024)
    assert (one.rss, one.uss, one.anonymous) == (alone.rss, alone.uss, alone.anonymous)
    both = main_of(first, second)
    assert (both.pss, both.pss_file) == ((2 * 379 + 100) * 1024, None)


def test_sample_of_a_main_process_and_its_workers() -> None:
    snapshot = sampler(tree()).sample(2.5)
    assert snapshot is not None
    assert snapshot.at == 2.5
    assert snapshot.main == parse_smaps_rollup(ROLLUP)
    assert snapshot.worker_count == 2
    assert snapshot.workers == add_readings([parse_smaps_rollup(OLD_ROLLUP)] * 2)
    assert (snapshot.main_descriptors, snapshot.worker_descriptors) == (3, 4)
    assert snapshot.shm_bytes == 600


def test_sample_without_workers_and_without_shm() -> None:
    reader = tree()
    reader.files[f"/proc/{MAIN}/task/{MAIN}/children"] = ""
    snapshot = sampler(reader, lambda: None).sample(0)
    assert snapshot is not None
    assert (snapshot.workers, snapshot.worker_count) == (None, 0)
    assert (snapshot.worker_descriptors, snapshot.shm_bytes) == (None, None)


def test_a_worker_that_ends_during_the_look_is_left_out() -> None:
    reader = tree()
    reader.files[f"/proc/{SECOND}/smaps_rollup"] = ""
    snapshot = sampler(reader).sample(0)
    assert snapshot is not None
    assert (snapshot.worker_count, snapshot.worker_descriptors) == (1, 2)
    assert snapshot.workers == parse_smaps_rollup(OLD_ROLLUP)


@pytest.mark.parametrize("state", ["Z", "X"])
def test_no_sample_of_an_ended_main_process(state: str) -> None:
    reader = tree()
    reader.files[f"/proc/{MAIN}/stat"] = f"{MAIN} (python) {state} 1 " + "0 " * 30
    assert sampler(reader).sample(0) is None
    assert sampler(FakeReader({})).sample(0) is None


def test_a_quick_look() -> None:
    look = sampler(tree()).quick()
    assert (look.shm_bytes, look.main_descriptors) == (600, 3)
    look = sampler(FakeReader({}), lambda: None).quick()
    assert (look.shm_bytes, look.main_descriptors) == (None, None)


def test_rss_only_where_there_is_no_proc() -> None:
    """An empty reader stands for a platform without /proc; this process stands for the child."""
    snapshot = TreeSampler(os.getpid(), FakeReader({})).sample(0)
    assert snapshot is not None
    assert snapshot.main.rss > 1_000_000
    assert snapshot.main == MemoryReading(rss=snapshot.main.rss)


def test_no_descriptors_where_psutil_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = types.SimpleNamespace()
    monkeypatch.setattr(psutil, "Process", lambda pid: windows)
    assert sampler(FakeReader({})).quick().main_descriptors is None
