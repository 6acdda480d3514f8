from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_benchmark, make_facts, make_run, make_suite
from feedrate.analysis.plateau import balanced, by_count, curves, fastest_region, plateau
from feedrate.analysis.stats import ratio, verdict_same
from feedrate.analysis.summary import Point, summarize

# benchmarks/reference/published_sweep.json: FashionMNIST on a Core i7-14700F.
# Warm images/s of single runs; of the repeated ones the lowest, the median and the highest.
LIGHT = {0: 30268, 2: 60881, 4: 108782, 8: 116828, 12: 119045, 16: 117262}
AUGMENTED = {0: 8830, 1: 10422, 2: 20626, 4: 41292, 8: 70398, 12: 70322, 16: 64050}
REPEATED = {8: (54306, 55196, 55660), 12: (61716, 62103, 62660), 16: (62614, 63753, 63974)}
TOLERANCE = 0.03

RATE = st.integers(100, 100_000)
RATES = st.lists(RATE, min_size=1, max_size=8)


def single(rates: Mapping[int, float]) -> tuple[Point, ...]:
    return summarize(make_suite(rates={count: [rate] for count, rate in rates.items()}))


def repeated(rates: Mapping[int, Sequence[float]]) -> tuple[Point, ...]:
    return summarize(make_suite(rates=rates))


def published_augmented() -> tuple[Point, ...]:
    sweep = [make_benchmark(count, [rate]) for count, rate in AUGMENTED.items()]
    again = [make_benchmark(count, runs, part="repeated") for count, runs in REPEATED.items()]
    return summarize(make_suite([*sweep, *again]))


def test_published_repeated_runs() -> None:
    """The published conclusion: the plateau starts at 12, and 16 gain 2.7 % over it."""
    made = plateau(repeated(REPEATED), TOLERANCE)
    assert made.start == 12
    assert made.best_beyond == 16
    assert made.gain_beyond is not None
    assert round(100 * (made.gain_beyond.value - 1), 1) == 2.7
    assert not made.at_edge
    assert made.gain_from_below is not None
    assert made.gain_from_below.value == pytest.approx(63753 / 55196)


def test_published_sweep_with_repeats_near_the_top() -> None:
    """Repeated runs stand for their counts, although the single ones were much faster."""
    (curve,) = curves(published_augmented())
    assert [point.workers for point in curve] == [0, 1, 2, 4, 8, 12, 16]
    assert [point.benchmark.part for point in curve][-3:] == ["repeated"] * 3
    assert plateau(curve, TOLERANCE).start == 12
    assert fastest_region(curve, TOLERANCE) == (12, 16)


def test_published_single_runs_alone_mislead() -> None:
    """By the single sweep 8 workers would do: the repeated runs say 15 % is given away there."""
    made = plateau(single(AUGMENTED), TOLERANCE)
    assert made.start == 8
    assert not made.decided


def test_published_light_condition() -> None:
    """Published: balanced 4, fastest 8 to 12. The plateau within 3 % starts at 8 already."""
    points = single(LIGHT)
    assert balanced(points) == 4
    assert plateau(points, TOLERANCE).start == 8
    assert fastest_region(points, TOLERANCE) == (8, 12, 16)
    # the published start, 12, is the one without any gain beyond
    assert plateau(points, 0.0).start == 12


def test_the_published_gain_is_not_settled_by_its_runs() -> None:
    """Which run was next to which is not published, so they are compared unpaired."""
    gain = ratio(REPEATED[16], REPEATED[12], paired=False)
    assert verdict_same(gain, TOLERANCE) == "undecided"
    assert verdict_same(gain, 0.05) == "same"
    loss = ratio(REPEATED[8], REPEATED[12], paired=False)
    assert verdict_same(loss, TOLERANCE) == "lower"


def test_clear_repeats_decide() -> None:
    made = plateau(repeated({1: [100, 101, 99], 2: [200, 202, 199], 4: [201, 203, 200]}), TOLERANCE)
    assert (made.start, made.decided, made.at_edge) == (2, True, False)


def test_a_single_run_far_from_the_start_does_not_undo_a_decision() -> None:
    far = make_benchmark(1, [50])
    near = [make_benchmark(n, [r, 1.01 * r]) for n, r in {2: 100, 4: 200, 8: 200, 16: 200}.items()]
    assert plateau(summarize(make_suite([far, *near])), TOLERANCE).decided


@pytest.mark.parametrize("once", [2, 4, 8])
def test_the_start_and_its_neighbours_need_repeats(once: int) -> None:
    rates = {2: [100.0, 101.0], 4: [200.0, 202.0], 8: [200.0, 202.0]}
    rates[once] = rates[once][:1]
    made = plateau(repeated(rates), TOLERANCE)
    assert made.start == 4
    assert not made.decided


def test_a_curve_that_still_rises_ends_at_the_edge() -> None:
    made = plateau(repeated({1: [100, 101], 2: [200, 202], 4: [400, 404]}), TOLERANCE)
    assert (made.start, made.at_edge, made.decided) == (4, True, True)
    assert made.gain_beyond is None
    assert made.best_beyond is None


def test_one_count_is_an_edge_and_decides_nothing() -> None:
    made = plateau(repeated({2: [100, 101, 102]}), TOLERANCE)
    assert (made.start, made.at_edge, made.decided) == (2, True, False)
    assert made.below is None


def test_a_dip_does_not_hide_what_comes_after_it() -> None:
    assert plateau(single({0: 500, 1: 450, 2: 880, 4: 1700}), TOLERANCE).start == 4


def test_without_a_rate_there_is_no_curve() -> None:
    points = repeated({1: [], 2: []})
    assert curves(points) == ()
    for function in (plateau, fastest_region):
        with pytest.raises(ValueError, match="no setting has a rate"):
            function(points, TOLERANCE)
    with pytest.raises(ValueError, match="no setting has a rate"):
        balanced(points)


def test_scattered_runs_stay_in_the_fastest_region() -> None:
    scattered = repeated({2: [80, 95, 99], 4: [100, 101, 99], 8: [50, 51, 49]})
    assert fastest_region(scattered, TOLERANCE) == (2, 4)
    assert fastest_region(single({2: 95, 4: 100, 8: 50}), TOLERANCE) == (4,)


def test_curves_differ_only_in_the_worker_count() -> None:
    grid = [
        make_benchmark(count, [100.0 + count], pin_memory=pin, prefetch_factor=prefetch)
        for pin, prefetch, count in itertools.product((False, True), (2, 4), (1, 2))
    ]
    zeros = [make_benchmark(0, [90.0], pin_memory=pin) for pin in (False, True)]
    made = curves(summarize(make_suite([*zeros, *grid])))
    assert len(made) == 4
    for curve in made:
        assert [point.workers for point in curve] == [0, 1, 2]
        assert len({point.benchmark.settings.pin_memory for point in curve}) == 1
        assert len({p.benchmark.settings.prefetch_factor for p in curve if p.workers}) == 1


def test_the_longest_curve_comes_first_then_the_fastest() -> None:
    long = [make_benchmark(count, [100.0], pin_memory=False) for count in (1, 2, 4)]
    fast = [make_benchmark(count, [900.0], pin_memory=True) for count in (1, 2)]
    lone = [make_benchmark(0, [5.0], batch_size=7)]
    made = curves(summarize(make_suite([*lone, *fast, *long])))
    assert [[p.workers for p in curve] for curve in made] == [[1, 2, 4], [1, 2], [0]]


def test_other_parts_are_no_points_of_a_curve() -> None:
    assert curves(summarize(make_suite([make_benchmark(4, [1.0], part="pin_memory")]))) == ()


def test_a_first_epoch_is_not_compared_with_later_ones() -> None:
    only_cold = make_benchmark(2, runs=[make_run(900.0, later_epochs=0, facts=make_facts(2))])
    (curve,) = curves(summarize(make_suite([make_benchmark(1, [100.0]), only_cold])))
    assert [point.workers for point in curve] == [1]
    (cold,) = curves(summarize(make_suite([only_cold])))
    assert [point.workers for point in cold] == [2]


def test_more_runs_stand_for_a_count_and_the_first_of_equals() -> None:
    points = summarize(
        make_suite(
            [
                make_benchmark(2, [1.0, 2.0, 3.0], part="repeated", label="three"),
                make_benchmark(2, [1.0], label="one"),
                make_benchmark(2, [1.0, 1.0, 1.0], label="late three"),
                make_benchmark(1, [1.0], label="lowest"),
            ]
        )
    )
    assert [point.benchmark.label for point in by_count(points)] == ["lowest", "three"]


@given(RATES)
def test_nothing_above_the_start_gains_the_tolerance(values: list[int]) -> None:
    rates = dict(enumerate(map(float, values)))
    made = plateau(single(rates), TOLERANCE)
    for count, rate in rates.items():
        best_above = max((r for c, r in rates.items() if c > count), default=0.0)
        gains = best_above >= (1 + TOLERANCE) * rate
        assert gains if count < made.start else not (count == made.start and gains)


@given(RATES)
def test_rates_that_rise_by_more_than_the_tolerance_end_at_the_edge(values: list[int]) -> None:
    rising = dict(enumerate(itertools.accumulate(map(float, values), lambda a, b: 1.05 * a + b)))
    made = plateau(single(rising), TOLERANCE)
    assert made.at_edge
    assert made.start == max(rising)


@given(RATES)
def test_rates_that_never_rise_start_at_the_fewest(values: list[int]) -> None:
    falling = dict(enumerate(sorted(map(float, values), reverse=True)))
    assert plateau(single(falling), TOLERANCE).start == 0
    assert balanced(single(falling)) == 0


@given(RATES, st.floats(0.1, 0.99), st.integers(0, 20))
def test_adding_a_slower_count_above_changes_no_choice(
    values: list[int], factor: float, gap: int
) -> None:
    rates = dict(enumerate(map(float, values)))
    before = single(rates)
    slower = factor * min(rates.values()) / (1 + TOLERANCE)
    after = single(rates | {len(values) + gap: slower})
    assert plateau(after, TOLERANCE).start == plateau(before, TOLERANCE).start
    assert fastest_region(after, TOLERANCE) == fastest_region(before, TOLERANCE)
    if factor < 0.9:
        assert balanced(after) == balanced(before)


@given(RATES)
def test_the_best_count_is_in_the_fastest_region_and_the_start_is_not_slower(
    values: list[int],
) -> None:
    rates = dict(enumerate(map(float, values)))
    points = single(rates)
    region = fastest_region(points, TOLERANCE)
    assert max(rates, key=lambda count: rates[count]) in region
    assert plateau(points, TOLERANCE).start <= min(c for c in rates if rates[c] == max(values))
