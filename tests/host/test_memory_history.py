from __future__ import annotations

from itertools import pairwise

import pytest

from feedrate.host.history import MAX_SNAPSHOTS, MemoryHistory
from feedrate.memory_records import MemoryReading, MemorySnapshot


def snapshot(
    at: float = 0.0,
    main: MemoryReading | None = None,
    workers: MemoryReading | None = None,
    *,
    shm: int | None = None,
    count: int = 0,
    descriptors: tuple[int | None, int | None] = (None, None),
) -> MemorySnapshot:
    return MemorySnapshot(
        at=at,
        main=main or MemoryReading(rss=1),
        workers=workers,
        worker_count=count,
        shm_bytes=shm,
        main_descriptors=descriptors[0],
        worker_descriptors=descriptors[1],
    )


def reading(rss: int, pss: int | None) -> MemoryReading:
    return MemoryReading(rss=rss, pss=pss)


def test_nothing_seen_gives_no_peaks() -> None:
    history = MemoryHistory()
    history.look(5, 5)
    assert history.peaks(0) is None
    assert history.snapshots() == ()


def test_peaks_are_each_the_highest_of_its_kind() -> None:
    history = MemoryHistory()
    history.add(snapshot(0, reading(900, 800), None, shm=10, descriptors=(7, None)))
    history.add(
        snapshot(1, reading(500, 300), reading(900, 600), count=4, shm=90, descriptors=(9, 40))
    )
    history.add(
        snapshot(2, reading(500, 400), reading(700, 450), count=2, shm=50, descriptors=(8, 20))
    )
    peaks = history.peaks(shm_before=10)
    assert peaks is not None
    assert peaks.memory_kind == "pss"
    assert (peaks.main_bytes, peaks.worker_bytes, peaks.workers) == (800, 600, 4)
    assert peaks.total_bytes == 900  # at one moment: not 800 + 600
    assert peaks.shm_bytes == 80
    assert (peaks.main_descriptors, peaks.worker_descriptors) == (9, 40)


def test_rss_is_named_where_there_is_no_more() -> None:
    history = MemoryHistory()
    history.add(snapshot(0, reading(900, None), reading(800, None), count=2))
    peaks = history.peaks(None)
    assert peaks is not None
    assert (peaks.memory_kind, peaks.total_bytes) == ("rss", 1700)
    assert (peaks.shm_bytes, peaks.main_descriptors, peaks.worker_descriptors) == (None, None, None)


def test_one_look_without_pss_does_not_mix_the_kinds() -> None:
    history = MemoryHistory()
    history.add(snapshot(0, reading(900, 200), reading(800, 100), count=2))
    history.add(snapshot(1, reading(900, 200), reading(5000, None), count=2))
    peaks = history.peaks(None)
    assert peaks is not None
    assert (peaks.memory_kind, peaks.worker_bytes, peaks.total_bytes) == ("pss", 100, 300)


def test_quick_looks_raise_the_peaks() -> None:
    history = MemoryHistory()
    history.add(snapshot(0, shm=100, descriptors=(5, None)))
    history.look(400, 50)
    history.look(None, None)
    peaks = history.peaks(shm_before=100)
    assert peaks is not None
    assert (peaks.shm_bytes, peaks.main_descriptors) == (300, 50)


def test_shm_that_was_given_back_by_others_is_not_negative() -> None:
    history = MemoryHistory()
    history.add(snapshot(0, shm=100))
    peaks = history.peaks(shm_before=500)
    assert peaks is not None
    assert peaks.shm_bytes == 0


@pytest.mark.parametrize("count", [1, 2, MAX_SNAPSHOTS - 1, MAX_SNAPSHOTS, 201, 799, 5000])
def test_snapshots_are_thinned_out_evenly_and_end_with_the_latest(count: int) -> None:
    history = MemoryHistory()
    for at in range(count):
        history.add(snapshot(at))
    times = [kept.at for kept in history.snapshots()]
    assert len(times) <= MAX_SNAPSHOTS
    assert len(times) >= min(count, MAX_SNAPSHOTS // 2)
    assert (times[0], times[-1]) == (0, count - 1)
    gaps = {later - earlier for earlier, later in pairwise(times[:-1])}
    assert len(gaps) <= 1


def test_the_peak_stays_when_its_snapshot_is_let_go() -> None:
    history = MemoryHistory()
    for at in range(1000):
        history.add(snapshot(at, reading(0, 777 if at == 501 else 1)))
    assert 777 not in {kept.main.pss for kept in history.snapshots()}
    peaks = history.peaks(None)
    assert peaks is not None
    assert peaks.main_bytes == 777
