from __future__ import annotations

from collections.abc import Iterable

import pytest

from builders import make_benchmark, make_facts, make_failed_run, make_peaks, make_run, make_suite
from feedrate.analysis.choosing import candidates, fastest
from feedrate.analysis.summary import Point, summarize
from feedrate.analysis.verdicts import best
from feedrate.records import Benchmark

TOLERANCE = 0.03


def points(benchmarks: Iterable[Benchmark]) -> tuple[Point, ...]:
    return summarize(make_suite(benchmarks))


def label(point: Point | None) -> str:
    assert point is not None
    return point.benchmark.label


def test_the_fastest_wins_where_the_difference_matters() -> None:
    made = points([make_benchmark(2, [100, 101, 99]), make_benchmark(4, [110, 111, 109])])
    assert label(fastest(made, TOLERANCE)) == "4 workers"


def test_fewer_workers_win_among_the_same() -> None:
    made = points([make_benchmark(4, [101, 102, 100]), make_benchmark(2, [100, 101, 99])])
    assert label(fastest(made, TOLERANCE)) == "2 workers"


def test_what_is_undecided_is_not_the_same() -> None:
    made = points([make_benchmark(2, [80, 99, 120]), make_benchmark(4, [100, 101, 99])])
    assert label(fastest(made, TOLERANCE)) == "4 workers"


@pytest.mark.parametrize(("slower", "chosen"), [(98.0, "2 workers"), (96.0, "4 workers")])
def test_single_runs_are_taken_by_their_value(slower: float, chosen: str) -> None:
    made = points([make_benchmark(2, [slower]), make_benchmark(4, [100.0])])
    assert label(fastest(made, TOLERANCE)) == chosen


def test_memory_then_prefetching_then_pinning_break_a_tie() -> None:
    def one(name: str, mib: int, prefetch: int, pin: bool) -> Benchmark:
        peaks = make_peaks(total_bytes=mib)
        fields = {"peaks": peaks}
        return make_benchmark(
            2, [100.0], label=name, run_fields=fields, prefetch_factor=prefetch, pin_memory=pin
        )

    most = one("memory", 900, 1, False)
    deep = one("prefetch", 500, 8, False)
    pinned = one("pinned", 500, 2, True)
    least = one("least", 500, 2, False)
    assert label(fastest(points([most, deep, pinned, least]), TOLERANCE)) == "least"
    assert label(fastest(points([most, deep, pinned]), TOLERANCE)) == "pinned"
    assert label(fastest(points([most, deep]), TOLERANCE)) == "prefetch"


def test_of_equal_settings_the_one_with_more_runs_counts() -> None:
    once = make_benchmark(4, [900.0], label="once")
    often = make_benchmark(4, [100.0, 100.0], label="often", part="repeated")
    assert [p.benchmark.label for p in candidates(points([once, often]))] == ["often"]


def test_first_epochs_count_only_where_there_is_nothing_else() -> None:
    cold = make_benchmark(4, runs=[make_run(900.0, later_epochs=0, facts=make_facts(4))])
    warm = make_benchmark(2, [100.0])
    assert [p.workers for p in candidates(points([cold, warm]))] == [2]
    assert [p.workers for p in candidates(points([cold]))] == [4]


def test_best_is_of_the_first_condition_unless_another_is_named() -> None:
    suite = make_suite(
        [
            make_benchmark(2, [10.0], condition="light"),
            make_benchmark(4, [99.0], condition="augmented"),
        ]
    )
    assert best(suite) == suite.benchmarks[0]
    assert best(suite, "augmented") == suite.benchmarks[1]
    assert best(suite, "no such condition") is None


def test_nothing_measured_has_no_best() -> None:
    assert best(make_suite([])) is None
    assert best(make_suite([make_benchmark(2, runs=[make_failed_run()])])) is None
