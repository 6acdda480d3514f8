"""Medians, their intervals, and when two settings are the same.

Rates of runs are few, skewed and have outliers, so medians are compared, and intervals come from
the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
13) with a fixed seed: the same file gives the same sentences again.

SciPy is imported where an interval is computed: that takes a second, which nobody is to wait before
anything is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
ENOUGH_RUNS = 5
_RESAMPLES = 9999
_SEED = 20240229

Verdict = Literal["same", "higher", "lower", "undecided"]
Direction = Literal["higher", "lower", "unclear"]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one figure, one for each run, in the order of the runs; never empty."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value, or the mean of the two in the middle."""
        return float(np.median(self.values))

    @property
    def low(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(self.values)

    @property
    def n(self) -> int:
        """How many values there are."""
        return len(self.values)


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Where a figure lies with the confidence ``level``.

    ``level`` is nominal. A bootstrap interval of a median lies within the values' range, which
    covers the median of a continuous distribution with the probability 1 − 2^(1−n) and no more:
    one half for 2 values, 94 % for 5. So 5 runs (``ENOUGH_RUNS``) are the least that can bear it.
    """

    low: float
    high: float
    level: float = LEVEL


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """One median over another. 1 means equal.

    ``interval`` is ``None`` where a side has a single value. ``paired`` says that value k of both
    sides was measured at nearly the same time, so that what disturbed both cancels out.
    """

    value: float
    interval: Interval | None
    paired: bool


def summary(values: Sequence[float]) -> Summary | None:
    """Return the summary of ``values``, ``None`` where there are none."""
    return Summary(values=tuple(values)) if values else None


def median_interval(values: Sequence[float], *, level: float = LEVEL) -> Interval | None:
    """Return the bootstrap interval of the median, in the unit of ``values``.

    ``None`` for fewer than 2 values: one value says nothing about how much the next would differ.
    """
    found = _bootstrap((tuple(values),), _median, level=level, paired=False)
    if found is None:
        return None
    # Interpolating between resamples may leave the range of the values by a rounding.
    low, high = max(found.low, min(values)), min(found.high, max(values))
    return Interval(low=low, high=high, level=found.level)


def ratio(
    a: Sequence[float],
    b: Sequence[float],
    *,
    paired: bool | None = None,
    level: float = LEVEL,
) -> Ratio:
    """Return the median of ``a`` over the median of ``b``, with its bootstrap interval.

    ``paired`` is true by default where both have the same length: in rotated order repeat k of two
    settings are neighbours in time, and the pairs are resampled together. Pass ``False`` where
    value k of both has nothing in common.

    Raises:
        ValueError: a side is empty or holds a value that is not above 0, or the sides are to be
            paired and differ in length.
    """
    if not a or not b or min(*a, *b) <= 0:
        raise ValueError("a ratio needs at least one value on both sides, all above 0")
    if paired is None:
        paired = len(a) == len(b)
    elif paired and len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired")
    return Ratio(
        value=float(np.median(a) / np.median(b)),
        interval=_bootstrap((tuple(a), tuple(b)), _ratio_of_medians, level=level, paired=paired),
        paired=paired,
    )


def surely_higher(a: Sequence[float], b: Sequence[float], *, level: float = LEVEL) -> bool:
    """Say whether ``a`` is higher than ``b``, from fewer pairs than a bootstrap can bear.

    Student's interval of the mean of the pairs' logarithms, which is as wide as few pairs have to
    be: two of them must agree closely. Value k of both was measured at nearly the same time.
    """
    logs = np.log(np.asarray(a) / np.asarray(b))
    if logs.size < 2:
        return False
    from scipy.stats import t

    error = float(np.std(logs, ddof=1)) / math.sqrt(logs.size)
    return float(np.mean(logs)) > float(t.ppf((1 + level) / 2, logs.size - 1)) * error


def verdict_same(ratio: Ratio, tolerance: float) -> Verdict:
    """Say whether two settings are the same, as far as the interval of their ratio allows.

    "same": the whole interval lies within 1 ± ``tolerance``, even where it excludes 1: such a
    difference is real and too small to matter. "higher" and "lower": the whole interval lies
    beyond the tolerance, so the difference matters. "undecided": the interval reaches over an
    edge of the tolerance, or there is none; more runs would settle it. `direction` may be known
    all the same.
    """
    interval = ratio.interval
    if interval is None:
        return "undecided"
    if 1 - tolerance <= interval.low and interval.high <= 1 + tolerance:
        return "same"
    if interval.low > 1 + tolerance:
        return "higher"
    if interval.high < 1 - tolerance:
        return "lower"
    return "undecided"


def direction(ratio: Ratio) -> Direction:
    """Say on which side of 1 the whole interval lies, however small the difference is."""
    interval = ratio.interval
    if interval is not None and interval.low > 1:
        return "higher"
    if interval is not None and interval.high < 1:
        return "lower"
    return "unclear"


def _median(x: NDArray[np.float64], axis: int = -1) -> Any:
    return np.median(x, axis=axis)


def _ratio_of_medians(x: NDArray[np.float64], y: NDArray[np.float64], axis: int = -1) -> Any:
    return np.median(x, axis=axis) / np.median(y, axis=axis)


def _bootstrap(
    samples: tuple[tuple[float, ...], ...],
    statistic: Callable[..., Any],
    *,
    level: float,
    paired: bool,
) -> Interval | None:
    if min(len(sample) for sample in samples) < 2:
        return None
    if all(len(set(sample)) == 1 for sample in samples):
        # Nothing to resample: an interval without width, and no warning about it.
        only = float(statistic(*(np.array(sample) for sample in samples)))
        return Interval(low=only, high=only, level=level)
    from scipy.stats import bootstrap

    result = bootstrap(
        samples,
        statistic,
        n_resamples=_RESAMPLES,
        vectorized=True,
        paired=paired,
        confidence_level=level,
        method="percentile",
        # "rng" since SciPy 1.15; every version that feedrate allows takes the older name
        random_state=np.random.default_rng(_SEED),
    )
    interval = result.confidence_interval
    return Interval(low=float(interval.low), high=float(interval.high), level=level)
