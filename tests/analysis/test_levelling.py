from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.analysis.levelling import FEWEST, levelling


@given(
    st.floats(0.1, 0.9),
    st.floats(1e3, 1e10),
    st.floats(0, 1e10),
    st.integers(FEWEST, 20),
)
def test_a_curve_is_followed_to_its_end(
    ratio: float, rise: float, start: float, count: int
) -> None:
    found = levelling([start + rise * (1 - ratio**k) for k in range(count)])
    assert found is not None
    # The ratios that are tried lie 0.02 apart.
    assert found.ratio == pytest.approx(ratio, abs=0.011)
    seen = 1 - ratio ** (count - 1)
    assert found.final == pytest.approx(start + rise, abs=(0.03 if seen > 0.9 else 0.3) * rise)
    assert found.final - found.remaining == pytest.approx(
        start + rise * seen, abs=0.02 * rise + 1e-6 * start
    )


@pytest.mark.parametrize(
    "values",
    [
        [5.0] * 10,
        [1e9 + 1e6 * k for k in range(10)],
        [1.0 + 2.0**k for k in range(10)],  # ever faster
        [100 * 0.5**k for k in range(10)],  # falling
        [0.0, 1.0, 2.0, 2.5, 2.7],  # too few
    ],
)
def test_what_does_not_level_off(values: list[float]) -> None:
    assert levelling(values) is None


def test_a_noisy_line_is_seldom_taken_for_a_curve() -> None:
    rng = np.random.default_rng(0)
    taken = sum(
        levelling((np.arange(12) + rng.normal(0, 1, 12)).tolist()) is not None for _ in range(200)
    )
    assert taken <= 4
