"""Which settings to take: the fastest, and the cheaper of those that are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable

from feedrate.analysis.stats import Ratio, verdict_same
from feedrate.analysis.summary import Point, comparable, compare_rates
from feedrate.settings import LoaderSettings

_TORCH_PREFETCH = 2  # torch's own prefetch_factor where none is set


def fastest(points: Iterable[Point], tolerance: float) -> Point | None:
    """Return the point with the best rate, or a cheaper one that is the same (`equal_enough`)."""
    distinct = candidates(points)
    top = max(distinct, key=lambda point: point.rate, default=None)
    if top is None:
        return None
    same = [point for point in distinct if equal_enough(compare_rates(point, top), tolerance)]
    return min(same, key=expense)


def candidates(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the `comparable` points, one for each settings: of two the one with more runs."""
    chosen: dict[LoaderSettings, Point] = {}
    for point in comparable(points):
        other = chosen.get(point.benchmark.settings)
        if other is None or len(point.repeats) > len(other.repeats):
            chosen[point.benchmark.settings] = point
    return tuple(chosen.values())


def equal_enough(ratio: Ratio | None, tolerance: float) -> bool:
    """Say whether the cheaper of two settings may be taken without loss.

    With an interval, when it lies within the tolerance. Without, when the value does: then the
    runs cannot tell more, and nothing is claimed beyond the choice.
    """
    if ratio is None:
        return False
    if ratio.interval is None:
        return abs(ratio.value - 1) <= tolerance
    return verdict_same(ratio, tolerance) == "same"


def expense(point: Point) -> tuple[float, ...]:
    """Order points by what they cost: workers, then memory, then the settings that ask for more."""
    settings = point.benchmark.settings
    return (
        settings.num_workers,
        math.inf if point.peak_total is None else point.peak_total,
        settings.prefetch_factor or _TORCH_PREFETCH,
        bool(settings.pin_memory),
    )
