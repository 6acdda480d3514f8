from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import median_abs_deviation

from feedrate.analysis.outliers import OUTLIER_Z, first_stands_out, outliers

TOLERANCE = 0.03
VALUES = st.lists(st.floats(50, 200), min_size=5, max_size=12)


def test_a_value_far_from_the_others_stands_out() -> None:
    assert outliers([100, 101, 99, 100.5, 80], TOLERANCE) == (4,)
    assert outliers([130, 101, 99, 100.5, 100], TOLERANCE) == (0,)


def test_few_values_say_too_little() -> None:
    assert outliers([100, 101, 99, 50], TOLERANCE) == ()


def test_what_is_within_the_tolerance_does_not_matter() -> None:
    assert outliers([100, 100, 100, 100, 102], TOLERANCE) == ()
    assert outliers([100, 100, 100, 100, 104], TOLERANCE) == (4,)


@given(VALUES)
def test_z_scores_agree_with_scipy(values: list[float]) -> None:
    sigma = median_abs_deviation(values, scale="normal")
    far = {i for i, v in enumerate(values) if abs(v - median(values)) > 1.001 * OUTLIER_Z * sigma}
    near = {i for i, v in enumerate(values) if abs(v - median(values)) < 0.999 * OUTLIER_Z * sigma}
    found = set(outliers(values, 0.0))
    # SciPy's factor has more digits than 1.4826; a value on the edge may fall on either side
    assert far <= found
    assert not near & found


@given(VALUES, st.floats(0, 0.5))
def test_at_most_half_of_the_values_stand_out(values: list[float], tolerance: float) -> None:
    assert len(outliers(values, tolerance)) <= len(values) / 2


@pytest.mark.parametrize(
    ("values", "stands_out"),
    [
        ([80, 100, 101, 99], True),
        ([80, 100, 101], False),
        ([120, 100, 101, 99], False),
        ([98, 100, 101, 99], False),
        ([80, 100, 120, 70], False),
        ([85, 100, 120, 90], False),
    ],
)
def test_slow_first_value(values: list[float], stands_out: bool) -> None:
    assert first_stands_out(values, TOLERANCE) is stands_out
