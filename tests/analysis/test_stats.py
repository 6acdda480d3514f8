from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from feedrate.analysis.stats import (
    Interval,
    Ratio,
    direction,
    median_interval,
    ratio,
    summary,
    verdict_same,
)

RATES = st.floats(min_value=0.1, max_value=1e6)
# the repeated runs of one setting on a noisy machine, items/s
NOISY = (55196.0, 54306.0, 55660.0, 55010.0, 55402.0)
FASTER = (62103.0, 61716.0, 62660.0, 62011.0, 62302.0)


def test_summary_of_nothing_is_none() -> None:
    assert summary([]) is None


def test_summary_keeps_the_values_and_their_order() -> None:
    made = summary([3.0, 1.0, 2.0, 10.0])
    assert made is not None
    assert made.values == (3.0, 1.0, 2.0, 10.0)
    assert (made.median, made.low, made.high, made.n) == (2.5, 1.0, 10.0, 4)


def test_one_value_has_no_interval() -> None:
    assert median_interval([1.0]) is None
    assert median_interval([]) is None


def test_equal_values_have_an_interval_without_width() -> None:
    assert median_interval([2.0, 2.0, 2.0]) == Interval(low=2.0, high=2.0)
    assert ratio([2.0, 2.0], [4.0, 4.0]).interval == Interval(low=0.5, high=0.5)


def test_interval_is_the_percentiles_of_all_resamples() -> None:
    """Checked against the exact bootstrap distribution: all 5^5 resamples of five values."""
    grid = np.array(np.meshgrid(*[NOISY] * 5)).reshape(5, -1)
    low, high = np.percentile(np.median(grid, axis=0), [2.5, 97.5])
    made = median_interval(NOISY)
    # medians of five values take five values only, so the random resamples hit them exactly
    assert made == Interval(low=low, high=high)


def test_interval_agrees_with_scipy_under_another_seed() -> None:
    values = np.random.default_rng(5).normal(100, 3, size=25)
    theirs = bootstrap((values,), np.median, method="percentile", random_state=7)
    ours = median_interval(tuple(values))
    assert ours is not None
    # 0.2 is a third of the standard error (3 · 1.25 / √25): far above what resampling scatters
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.2)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.2)


def test_the_same_values_give_the_same_interval() -> None:
    assert median_interval(NOISY) == median_interval(list(NOISY))


def test_a_higher_level_widens_the_interval() -> None:
    wide = median_interval(NOISY, level=0.99)
    narrow = median_interval(NOISY, level=0.5)
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low <= narrow.high < wide.high
    assert wide.level == 0.99


def test_pairing_cancels_what_disturbed_both() -> None:
    drift = np.array([1.0, 0.8, 1.3, 0.9, 1.1])
    a, b = tuple(200 * drift), tuple(100 * drift)
    together, apart = ratio(a, b), ratio(a, b, paired=False)
    assert together.paired
    assert not apart.paired
    assert together.interval is not None
    assert apart.interval is not None
    assert together.interval.low == pytest.approx(2.0)
    assert together.interval.high == pytest.approx(2.0)
    assert apart.interval.low < 1.7
    assert apart.interval.high > 2.3


def test_unequal_lengths_are_not_paired() -> None:
    made = ratio(NOISY, FASTER[:3])
    assert not made.paired
    assert made.interval is not None
    with pytest.raises(ValueError, match="5 and 3 values cannot be paired"):
        ratio(NOISY, FASTER[:3], paired=True)


def test_a_single_value_on_a_side_leaves_the_ratio_without_interval() -> None:
    assert ratio([2.0], [1.0]) == Ratio(value=2.0, interval=None, paired=True)
    assert ratio(NOISY, [1.0]).interval is None


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_a_ratio_needs_positive_values(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ratio(a, b)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "side"),
    [
        (0.98, 1.02, "same", "unclear"),
        (0.97, 1.03, "same", "unclear"),
        (1.01, 1.02, "same", "higher"),
        (0.98, 0.99, "same", "lower"),
        (1.04, 1.10, "higher", "higher"),
        (0.80, 0.96, "lower", "lower"),
        (1.01, 1.05, "undecided", "higher"),
        (0.95, 0.99, "undecided", "lower"),
        (0.90, 1.10, "undecided", "unclear"),
    ],
)
def test_verdict_and_direction(low: float, high: float, verdict: str, side: str) -> None:
    made = Ratio(value=(low + high) / 2, interval=Interval(low=low, high=high), paired=True)
    assert verdict_same(made, 0.03) == verdict
    assert direction(made) == side


def test_single_runs_decide_nothing() -> None:
    made = ratio([10.0], [1.0])
    assert verdict_same(made, 0.03) == "undecided"
    assert direction(made) == "unclear"


@given(st.lists(RATES, min_size=2, max_size=6))
def test_the_interval_lies_within_the_values(values: list[float]) -> None:
    made = median_interval(values)
    assert made is not None
    rounding = 1e-12 * max(values)
    assert min(values) - rounding <= made.low <= made.high <= max(values) + rounding


@given(st.lists(RATES, min_size=2, max_size=6), st.floats(min_value=0.01, max_value=100))
def test_a_ratio_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    reference = values[::-1]
    plain = ratio(values, reference)
    scaled = ratio([v * factor for v in values], [v * factor for v in reference])
    assert math.isclose(plain.value, scaled.value, rel_tol=1e-9)
    assert plain.interval is not None
    assert scaled.interval is not None
    assert math.isclose(plain.interval.low, scaled.interval.low, rel_tol=1e-9)


@given(st.lists(RATES, min_size=2, max_size=6))
def test_a_setting_is_the_same_as_itself(values: list[float]) -> None:
    assert verdict_same(ratio(values, values), 0.03) == "same"
