from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import theilslopes

from feedrate.analysis.tail import FEWEST, epochs_for, tail, tail_length

SIZES = st.floats(min_value=0, max_value=1e12)


def test_the_first_third_is_warm_up() -> None:
    assert [tail_length(count) for count in (0, 1, 2, 3, 6, 7, 9, 30)] == [0, 0, 1, 2, 4, 5, 6, 20]


@given(st.integers(1, 500))
def test_so_many_epochs_and_no_fewer_give_the_tail(length: int) -> None:
    count = epochs_for(length)
    assert tail_length(count) == length
    assert tail_length(count - 1) < length


def test_too_few_values_have_no_tail() -> None:
    assert tail([1.0] * (epochs_for(FEWEST) - 1)) is None
    assert tail([1.0] * epochs_for(FEWEST)) is not None


def test_a_line_has_its_slope_exactly() -> None:
    found = tail([100.0, *(3.0 * k for k in range(8))])
    assert found is not None
    assert found.slope == found.interval.low == found.interval.high == 3
    assert (found.gain, found.undone, found.rises) == (15, 0, True)


@given(st.lists(SIZES, min_size=7, max_size=30))
def test_the_interval_is_scipys(values: list[float]) -> None:
    found = tail(values)
    assert found is not None
    late = values[-len(found.values) :]
    slope, _, low, high = theilslopes(late, alpha=0.95)
    assert (found.slope, found.interval.low, found.interval.high) == (slope, low, high)
    assert found.sure_low <= found.interval.low


@given(st.lists(SIZES, min_size=7, max_size=30))
def test_a_series_and_its_mirror_do_not_both_rise(values: list[float]) -> None:
    there, back = tail(values), tail([-value for value in values])
    assert there is not None and back is not None  # noqa: PT018 - for the types
    assert not (there.rises and back.rises)


def test_two_teeth_of_a_saw_do_not_rise() -> None:
    """Over two whole teeth Kendall's test is fooled: the fall between them is what tells."""
    tooth = [float(k) for k in range(15)]
    found = tail([0.0] * 15 + tooth + tooth)
    assert found is not None
    assert len(found.values) == 30
    assert found.undone == 14
    assert not found.rises


@pytest.mark.parametrize("place", range(7))
def test_one_step_is_no_rise(place: int) -> None:
    found = tail([0.0] * 3 + [0.0] * place + [100.0] * (7 - place))
    assert found is not None
    assert not found.rises


def test_a_release_that_undoes_no_rise_is_not_held_against_it() -> None:
    """What was set up before the watch and is freed at its start is no tooth of a saw."""
    found = tail([900.0, 900.0, *(3.0 * k for k in range(12))])
    assert found is not None
    assert found.undone == 0
    assert found.rises


def test_values_that_resemble_their_neighbours_tell_less() -> None:
    rng = np.random.default_rng(0)
    alone = rng.normal(0, 1, 60) + 0.08 * np.arange(60)
    alike = np.convolve(alone, np.ones(6) / 6, "same") * np.sqrt(6)
    lows = [found.sure_low for values in (alone, alike) if (found := tail(values.tolist()))]
    assert lows[1] < lows[0]
