"""The verdict on one series: 200 seeds of each harmless pattern, and growth of each shape."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_patterns import (
    BASE,
    BLUR,
    HARMLESS,
    KIB,
    MIB,
    Pattern,
    collector,
    leak,
    leak_by_steps,
    leak_with,
    leaking_list,
    noise,
    warm_up,
)  # fmt: skip

from feedrate.analysis.growth import FEWEST_EPOCHS, Scale, growth

ITEMS = 1000
SCALE = Scale.of_bytes(ITEMS)
SEEDS = 200


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("count", [9, 14, 24, 45])
def test_no_false_alarm(name: str, count: int) -> None:
    for seed in range(SEEDS):
        values = HARMLESS[name](np.random.default_rng(seed), count)
        assert growth(values.tolist(), SCALE, BLUR.get(name, 0.0)).verdict != "grows", seed


@pytest.mark.parametrize("name", ["still", "warm_up", "bounded_cache"])
def test_what_is_still_is_said_to_be_still(name: str) -> None:
    verdicts = [
        growth(HARMLESS[name](np.random.default_rng(seed), 24).tolist(), SCALE).verdict
        for seed in range(SEEDS)
    ]
    assert verdicts.count("none") >= 0.95 * SEEDS


@pytest.mark.parametrize(
    ("pattern", "per_epoch", "count"),
    [
        (leak(200 * ITEMS), 200 * ITEMS, FEWEST_EPOCHS),  # 200 bytes an item
        (leak(100 * MIB), 100 * MIB, FEWEST_EPOCHS),
        (leak_with(warm_up, 5 * MIB), 5 * MIB, 24),
        (leak_with(noise, 2 * MIB), 2 * MIB, 30),
        (leak_with(collector, 5 * MIB), 5 * MIB, 24),
        (leak_by_steps, 4 * MIB, 24),
        (leaking_list, 208 * ITEMS, 24),
    ],
    ids=["200 B an item", "large", "warm-up", "noise", "collector", "steps", "list"],
)
def test_growth_is_found(pattern: Pattern, per_epoch: float, count: int) -> None:
    missed = 0
    for seed in range(50):
        found = growth(pattern(np.random.default_rng(seed), count).tolist(), SCALE)
        missed += found.verdict != "grows"
        if found.verdict == "grows":
            assert found.interval.low <= found.slope <= found.interval.high
            assert found.slope == pytest.approx(per_epoch, rel=0.5)
    assert missed <= 5


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_cache_that_each_worker_fills_levels_off(workers: int) -> None:
    ratio = 1 - 1 / workers
    values = [BASE + 500 * MIB * (1 - ratio**k) for k in range(12)]
    found = growth(values, SCALE)
    assert found.verdict == "levels_off"
    assert found.curve is not None
    assert found.curve.final == pytest.approx(BASE + 500 * MIB, abs=50 * MIB)


def test_growth_that_ends_is_not_taken_for_growth() -> None:
    """It grows for so long that it is suspected, and then stops: the second look."""
    values = [float(MIB * min(k, 12)) for k in range(40)]
    verdicts = [growth(values[:count], SCALE).verdict for count in range(9, 40)]
    assert "grows" in verdicts[:3]  # at that time nobody could know
    assert verdicts[-1] == "none"


@pytest.mark.parametrize("count", range(FEWEST_EPOCHS))
def test_too_few_epochs_say_how_many_more(count: int) -> None:
    found = growth([float(MIB * k) for k in range(count)], SCALE)
    assert found.verdict == "undecided"
    assert found.more == FEWEST_EPOCHS - count
    assert (found.hidden is None) == (count < 2)


def test_what_could_hide_is_a_figure() -> None:
    found = growth([float(BASE)] * 9, SCALE)
    assert found.verdict == "none"
    assert found.hidden == 64 * KIB / 5
    noisy = growth((BASE + np.random.default_rng(1).normal(0, 30 * KIB, 30)).tolist(), SCALE)
    assert noisy.verdict == "none"
    assert noisy.hidden is not None
    assert 64 * KIB / 19 < noisy.hidden < SCALE.matters


def test_noise_leaves_it_open_until_there_are_enough() -> None:
    """The estimate of how many more epochs is right in its order of magnitude."""
    noisy = (BASE + np.random.default_rng(3).normal(0, MIB, 400)).tolist()
    found = growth(noisy[:12], SCALE)
    assert found.verdict == "undecided"
    assert found.more is not None
    assert growth(noisy[: 12 + 3 * found.more], SCALE).verdict == "none"


def test_noise_far_from_any_limit_may_hide_more() -> None:
    far = Scale(matters=SCALE.matters, resolution=SCALE.resolution, tolerated=20 * MIB)
    noisy = BASE + np.random.default_rng(3).normal(0, MIB, 12)
    found = growth(noisy.tolist(), far)
    assert found.verdict == "none"
    assert found.hidden is not None
    assert SCALE.matters < found.hidden < far.tolerated
    # Not where there is a trend, sure or not.
    for rate in (0.3 * MIB, MIB):
        rising = (noisy + rate * np.arange(12)).tolist()
        if growth(rising, far).interval.low > 0:
            assert growth(rising, far).verdict != "none"


def test_a_step_is_waited_out() -> None:
    found = growth([0.0] * 5 + [2.0 * MIB] * 5, SCALE)
    assert (found.verdict, found.more) == ("undecided", 5)
    assert growth([0.0] * 5 + [2.0 * MIB] * 10, SCALE).verdict == "none"


def test_growth_too_small_to_matter_is_none() -> None:
    found = growth([1024.0 * k for k in range(12)], SCALE)
    assert found.verdict == "none"
    assert found.hidden is not None
    assert 1024 < found.hidden < SCALE.matters


def test_descriptors_one_an_epoch() -> None:
    scale = Scale.of_counts(100)
    assert growth([20.0 + k for k in range(9)], scale).verdict == "grows"
    assert growth([20.0] * 9, scale).verdict == "none"


@given(
    st.lists(st.floats(0, 1e12), max_size=40),
    st.floats(1, 1e7),
)
def test_any_series_has_a_verdict_whose_figures_agree(values: list[float], items: float) -> None:
    scale = Scale.of_bytes(items)
    found = growth(values, scale)
    assert (found.more is None) == (found.verdict != "undecided")
    assert found.more is None or found.more >= 1
    if found.verdict == "none":
        assert found.hidden is not None
        assert found.hidden <= scale.matters
    if found.verdict in ("grows", "levels_off"):
        assert found.slope >= scale.matters


@given(st.floats(0.01, 50), st.floats(0, 1e10), st.integers(9, 30))
def test_a_clean_leak_is_found_at_any_rate_that_matters(
    rate: float, base: float, count: int
) -> None:
    per_epoch = rate * SCALE.matters
    found = growth([round(base + per_epoch * k) for k in range(count)], SCALE)
    assert found.verdict == ("grows" if rate > 1.001 else found.verdict)
    if rate < 0.8:
        assert found.verdict in ("none", "undecided")


@given(st.lists(st.integers(0, 10**9), min_size=9, max_size=30), st.integers(0, 10**9))
def test_where_a_series_starts_does_not_matter(values: list[int], base: int) -> None:
    one = growth([float(value) for value in values], SCALE)
    other = growth([float(value + base) for value in values], SCALE)
    assert one.verdict == other.verdict
    assert one.slope == other.slope


def test_the_figure_is_per_value() -> None:
    values = [float(5 * MIB * k) for k in range(10)]
    assert growth(values, SCALE).slope == values[1] - values[0]
    assert all(later > earlier for earlier, later in pairwise(values))
