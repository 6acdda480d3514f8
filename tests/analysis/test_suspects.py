from __future__ import annotations

import pytest
from watch_builder import MIB, make_watch, rising

from feedrate.analysis.growing import everything
from feedrate.analysis.suspects import suspects


def test_nothing_that_grows_is_no_suspect() -> None:
    assert suspects(make_watch(epochs=12)) == ()


def test_a_process_that_grows_is_one_with_what_each_of_its_items_adds() -> None:
    (main,) = suspects(make_watch(epochs=12, items=1000, main=rising(10 * MIB)))
    assert (main.process, main.expected) == ("main", pytest.approx(10 * MIB / 1000))
    # two workers, each with half of the items
    (worker,) = suspects(make_watch(epochs=12, items=1000, workers=2, worker=rising(10 * MIB)))
    assert (worker.process, worker.expected) == ("worker 0", pytest.approx(10 * MIB / 500))


def test_what_only_levels_off_is_taken_for_a_warm_up() -> None:
    watch = make_watch(epochs=14, worker=lambda time: 100 * MIB * (1 - 0.7**time))
    assert suspects(watch) == ()


def test_open_files_are_python_objects_too() -> None:
    (worker,) = suspects(make_watch(epochs=12, worker_descriptors=rising(50, 20)))
    assert (worker.process, worker.expected) == ("worker 0", None)
    (main,) = suspects(make_watch(epochs=12, workers=0, main_descriptors=rising(50, 20)))
    assert (main.process, main.expected) == ("main", None)


def test_what_open_files_take_is_what_is_found_held_against() -> None:
    # A pass of some seconds sees the noise of a process as well, and may take it for the growth.
    watch = make_watch(
        epochs=12, items=1000, main=rising(MIB / 2), main_descriptors=rising(50, 40), workers=0
    )
    assert not [each for each in everything(watch) if each.is_growing and each.unit == "bytes"]
    (main,) = suspects(watch)
    assert main.expected == pytest.approx(MIB / 2 / 1000)


def test_what_threads_take_is_no_objects() -> None:
    watch = make_watch(epochs=12, main=rising(MIB / 2), main_threads=rising(20), workers=0)
    (main,) = suspects(watch)
    assert (main.process, main.expected) == ("main", None)


def test_a_cache_that_is_full_by_now_is_looked_for() -> None:
    def held(time: float) -> float:
        epoch, phase = int(time), time % 1
        return 180 * MIB - 75 * MIB * 0.5**epoch * (1 - phase / 2)

    (worker,) = suspects(make_watch(epochs=30, worker=held, dataset_length=300))
    assert (worker.process, worker.expected) == ("worker 0", 0.0)


def test_batches_that_the_main_process_keeps_and_its_memory_are_one_suspect() -> None:
    watch = make_watch(epochs=12, main=rising(10 * MIB), kept_batches=rising(50 * MIB))
    assert [each.process for each in suspects(watch)] == ["main"]
