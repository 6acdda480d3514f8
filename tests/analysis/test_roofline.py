"""The three ceilings, against what they are by hand."""

from __future__ import annotations

import math

import pytest

from feedrate.analysis.roofline import Roofline, roofline
from feedrate.analysis.windows import Stretch, by_level, percentile, together, typical
from tune_builders import ITEMS, window


def level(count: int, rate: float, **changes: float) -> Stretch:
    made = together([window(count, rate, "ramp", **changes)])
    assert made is not None
    return made


# l = 20 ms, c = 8.1 ms on 2 CPUs, s = 2.5 ms
ROOF = Roofline(cpus=2, fetch=0.020, worker_cpu=0.008, cpu=0.0081, loop=0.0025)


@pytest.mark.parametrize(
    ("workers", "most", "bound"),
    [
        (1, 50.0, "workers"),
        (4, 200.0, "workers"),
        (5, 2 / 0.0081, "cpus"),
        (50, 2 / 0.0081, "cpus"),
    ],
)
def test_the_lowest_ceiling_bounds(workers: int, most: float, bound: str) -> None:
    assert ROOF.at(workers) == pytest.approx(most, rel=1e-3)
    assert ROOF.binding(workers) == bound


def test_a_slow_loop_bounds() -> None:
    roof = Roofline(cpus=8, fetch=0.02, cpu=0.02, loop=0.01)
    assert roof.binding(8) == "loop"
    assert roof.at(8) == pytest.approx(100)
    assert roof.knee == pytest.approx(2.0)


def test_the_knee_is_where_workers_meet_the_lower_of_the_others() -> None:
    assert ROOF.knee == pytest.approx(0.020 * 2 / 0.0081)
    assert Roofline(cpus=2, fetch=0.02).knee is None


def test_without_workers_fetch_and_step_take_turns() -> None:
    assert ROOF.at(0) == pytest.approx(1 / 0.0225)
    assert ROOF.binding(0) is None


def test_without_workers_what_was_measured_without_them_bounds() -> None:
    slow = {"fetch_seconds": 0.03, "worker_cpu_seconds": 0.03, "main_cpu_seconds": 0.02}
    found = roofline((level(0, 40, step=0.005), level(1, 30, **slow)), level(0, 150), cpus=2)
    # 20 ms of waiting and the step of 5 ms, and not a worker's fetch, nor its share of the CPUs
    assert found.at(0) == pytest.approx(40)
    assert found.at(1) == pytest.approx(1 / 0.03)
    quick = roofline((level(0, 40, step=0.005),), level(0, 250), cpus=2)
    assert quick.at(0) == pytest.approx(1 / 0.024)


def test_what_was_not_measured_bounds_nothing() -> None:
    assert Roofline(cpus=2).at(3) == math.inf
    assert Roofline(cpus=2, loop=0.01).at(0) == math.inf
    assert Roofline(cpus=2).binding(3) is None


def test_words_say_where_a_ceiling_comes_from() -> None:
    assert ROOF.words("cpus", 4) == ("2 CPUs at 8.10 ms of CPU a batch give at most 247 batches/s")
    assert ROOF.words("workers", 1) == "1 worker at 20.0 ms a batch gives at most 50.0 batches/s"
    assert ROOF.words("loop", 1) == "the loop itself takes 2.50 ms a batch: at most 400 batches/s"


def test_a_worker_that_computes_does_not_wait_for_storage() -> None:
    assert not Roofline(cpus=2, fetch=0.02, worker_cpu=0.019).waits_for_storage
    assert Roofline(cpus=2, fetch=0.02, worker_cpu=0.001).waits_for_storage
    assert not Roofline(cpus=2, fetch=0.02).waits_for_storage


def test_it_is_read_off_the_lowest_level_and_the_cached_batch() -> None:
    times = {"fetch_seconds": 0.02, "worker_cpu_seconds": 0.008, "main_cpu_seconds": 0.001}
    levels = (level(2, 100, **times), level(4, 180, **times | {"fetch_seconds": 0.03}))
    found = roofline(levels, level(0, 400), cpus=3)
    assert found == Roofline(
        cpus=3, fetch=0.02, worker_cpu=0.008, cpu=pytest.approx(0.009), loop=pytest.approx(0.0025)
    )


def test_what_a_level_has_passed_is_no_ceiling() -> None:
    # clocks that say 10 ms a fetch, 30 ms of CPU and a loop of 6 ms, and rates that say less
    times = {"fetch_seconds": 0.01, "worker_cpu_seconds": 0.02, "main_cpu_seconds": 0.01}
    levels = (level(1, 110, **times), level(2, 200, **times))
    found = roofline(levels, level(0, 160), cpus=2)
    assert found.at(1) == pytest.approx(110)
    assert found.at(2) == pytest.approx(200)


def test_a_fetch_that_nobody_timed_follows_from_how_often_a_batch_came() -> None:
    assert roofline((level(2, 100),), None, cpus=2).fetch == pytest.approx(0.02)
    # a loop that never waits tells nothing about its workers
    assert roofline((level(2, 1000, step=0.001),), None, cpus=2).fetch is None
    own = roofline((level(0, 40, step=0.005),), None, cpus=2)
    assert own.fetch == pytest.approx(0.020)
    assert own.loop == pytest.approx(0.005)


def test_windows_of_several_levels_are_told_apart_and_a_disturbed_one_does_not_count() -> None:
    windows = [window(2, rate, "ramp") for rate in (100.0, 20.0, 102.0)] + [window(1, 50, "ramp")]
    assert [each.level for each in by_level(windows)] == [1, 2]
    assert by_level(windows)[1].batch_rate == pytest.approx(100)


def test_of_an_even_number_the_faster_window_is_typical() -> None:
    found = typical([window(2, 100, "ramp"), window(2, 90, "ramp")])
    assert found is not None
    assert found.batch_rate == pytest.approx(100)
    assert typical([]) is None


def test_of_several_queue_lengths_the_faster_stands_for_the_level() -> None:
    windows = [window(2, 100, "ramp", prefetch=2), window(2, 130, "ramp", prefetch=4)]
    assert by_level(windows)[0].prefetch == 4


def test_windows_together_add_up() -> None:
    found = together([window(2, 100, batches=10), window(2, 50, batches=30)])
    assert found is not None
    assert found.seconds == pytest.approx(0.7)
    assert found.rate == pytest.approx(40 * ITEMS / 0.7)
    assert found.items_a_batch == ITEMS
    assert found.wait_share == pytest.approx(1 - 0.04 / 0.7)
    assert found.cpu is None
    assert together([]) is None


def test_percentiles_are_those_of_all_batches() -> None:
    windows = [window(1, 10, batch_waits=(0.1, 0.2)), window(1, 10, batch_waits=(0.3,))]
    assert percentile(windows, "wait", 50) == pytest.approx(0.2)
    assert percentile(windows, "step", 50) is None
