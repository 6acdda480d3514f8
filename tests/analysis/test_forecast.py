from __future__ import annotations

import pytest
from watch_builder import MIB, make_watch

from feedrate.analysis.forecast import forecast, share_taken
from feedrate.analysis.stats import Interval
from feedrate.memory_records import MemoryLook, MemoryReading, MemoryRoom, ProcessReading


def test_items_epochs_and_time() -> None:
    watch = make_watch(epochs=4, items=500, epoch_seconds=30)
    found = forecast(watch, "memory", 100 * MIB, 1024.0, Interval(low=512, high=2048))
    assert found is not None
    assert found.items == 100 * 1024
    assert found.soonest == 50 * 1024
    assert found.epochs == pytest.approx(100 * 1024 / 500)
    assert found.seconds == pytest.approx(100 * 1024 * 30 / 500)


def test_no_limit_or_no_growth_no_forecast() -> None:
    watch = make_watch(epochs=4)
    still = Interval(low=0, high=0)
    assert forecast(watch, "memory", None, 1024.0, still) is None
    assert forecast(watch, "memory", 100, 0.0, still) is None


def test_a_limit_that_is_passed_already_is_reached_now() -> None:
    found = forecast(make_watch(epochs=4), "x", -5, 1.0, Interval(low=1, high=1))
    assert found is not None
    assert (found.items, found.left) == (0, 0)


def look(rss: int, opened: int, shm: int, *workers: tuple[int, int]) -> MemoryLook:
    def process(rss: int, opened: int) -> ProcessReading:
        return ProcessReading(pid=1, memory=MemoryReading(rss=rss), descriptors=opened)

    made = [process(*each) for each in workers]
    main = process(rss, opened)
    return MemoryLook(
        at=0.0, epoch=0, phase=0.0, items=0, main=main, workers=tuple(made), shm_named=shm
    )


def test_what_was_taken_is_told_of_what_comes_nearest_to_its_limit() -> None:
    first = look(100, 10, 50, (100, 10), (100, 10))
    room = MemoryRoom(memory=1000, shm=1000, main_descriptors=110, worker_descriptors=110)
    assert share_taken(first, first, room) == 0
    assert share_taken(first, look(150, 10, 50, (150, 10), (100, 10)), room) == 0.1
    assert share_taken(first, look(100, 60, 50, (100, 10), (100, 10)), room) == 1.0
    assert share_taken(first, look(100, 10, 250, (100, 10), (100, 10)), room) == 0.2
    assert share_taken(first, look(100, 10, 50, (100, 10), (100, 30)), room) == 0.25
    assert share_taken(first, look(50, 5, 0, (100, 10)), room) == 0
    assert share_taken(first, look(150, 60, 250), MemoryRoom()) == 0
