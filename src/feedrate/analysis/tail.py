"""The tail of a series, and how surely it rises: what a verdict on growth starts from.

Sen, Estimates of the Regression Coefficient Based on Kendall's Tau, JASA 1968: the slope is the
median of the slopes between all pairs of values, and its interval needs no assumption on the noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, theilslopes

from feedrate.analysis.stats import LEVEL, Interval

SURE = 0.9998
"""The level at which a rise is taken for real: chance gives one in 10,000 for each series.

It is stricter than `LEVEL` because a watch asks again after each epoch, of many series.
"""
FEWEST = 5
"""The least values of a tail. Five that rise one after another happen by chance once in 120."""
Floats = NDArray[np.float64]

_STEP = 0.25
"""A step below this share of the slope is none to speak of."""
_STILL_AT_MOST = 0.55
_MANY_STEPS = 8

_SUREST = 1 - 1e-14
"""What still is less than 1 when scipy has halved its rest."""

WARM_UP = 3
"""The first of so many parts is left out: allocators, caches and queues still fill."""


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The values after the warm-up, one for each epoch (or another equal stretch).

    ``slope`` is what they rise by from one to the next, ``interval`` where that lies at `LEVEL`.
    ``sure_low`` is the lower end at the level `SURE`. ``undone`` is the largest rise that a fall
    took back, since the first epoch; ``still`` the share of steps that are none to speak of.
    """

    values: tuple[float, ...]
    slope: float
    interval: Interval
    sure_low: float
    undone: float
    still: float

    @property
    def gain(self) -> float:
        """What the tail rises by in all."""
        return self.slope * (len(self.values) - 1)

    @property
    def rises(self) -> bool:
        """Whether it surely rises: steadily, and by more than was ever taken back.

        A few steps among values that are still are things set up once, or pages that an allocator
        keeps since its largest epoch; those get rarer.
        """
        steps = (1 - self.still) * (len(self.values) - 1)
        steady = self.still <= _STILL_AT_MOST or steps >= _MANY_STEPS
        return self.sure_low > 0 and self.gain > self.undone and steady


def tail_length(count: int) -> int:
    """Return how many of so many values are the tail: the last two thirds, without the first."""
    return max(0, count - max(1, count // WARM_UP))


def epochs_for(length: int) -> int:
    """Return how many values it takes until the tail is so long."""
    count = max(1, length + length // 2 - 2)
    while tail_length(count) < length:
        count += 1
    return count


def tail(values: Sequence[float], blur: float = 0.0) -> Tail | None:
    """Return the tail of a series, ``None`` where it has fewer than `FEWEST` values.

    ``blur`` is how far a value may lie from what it stands for; it counts as taken back.
    """
    length = tail_length(len(values))
    if length < FEWEST:
        return None
    late = np.asarray(values[-length:], dtype=float)
    slope, _, low, high = map(float, theilslopes(late, alpha=LEVEL))
    _, _, sure_low, _ = theilslopes(late, alpha=_sure_level(late - slope * np.arange(length)))
    return Tail(
        values=tuple(late.tolist()),
        slope=slope,
        interval=Interval(low=low, high=high),
        sure_low=float(sure_low),
        undone=max(blur, _undone(np.asarray(values[1:], dtype=float))),
        still=float(np.mean(np.abs(np.diff(late)) <= _STEP * abs(slope))),
    )


def _sure_level(rest: Floats) -> float:
    """Return `SURE`, or more where what a line leaves of each value resembles the one before.

    Such values tell less than independent ones: the interval's width grows by the root of
    (1 + r) / (1 - r), with r the correlation of neighbours; as in Hamed and Rao, A modified
    Mann-Kendall trend test for autocorrelated data, Journal of Hydrology 1998.
    """
    centred = rest - rest.mean()
    size = float(centred @ centred)
    alike = float(centred[1:] @ centred[:-1]) / size if size > 0 else 0.0
    if alike <= 0:
        return SURE
    wider = norm.ppf((1 + SURE) / 2) * np.sqrt((1 + alike) / max(1 - alike, 0.05))
    return min(float(1 - 2 * norm.sf(wider)), _SUREST)


def _undone(values: Floats) -> float:
    """Return the largest rise that a later fall took back, wholly or up to that fall."""
    rise = values - np.minimum.accumulate(values)
    fall = values - np.minimum.accumulate(values[::-1])[::-1]
    return float(np.max(np.minimum(rise, fall)))
