"""Where more workers stop paying: plateau start, fastest region, balanced choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from feedrate.analysis.stats import Ratio, Verdict, verdict_same
from feedrate.analysis.summary import Point, comparable, compare_rates
from feedrate.settings import LoaderSettings

BALANCED_SHARE = 0.9
_CURVE_PARTS = ("sweep", "repeated")


class Plateau(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest worker count from which more workers gain less than the tolerance.

    Attributes:
        start: that count, by the medians.
        counts: the counts that were compared, ascending.
        best_beyond: the fastest count above the start, ``None`` at the edge.
        gain_beyond: its rate over the start's; what more workers gain at most.
        below: the next lower count, ``None`` where the start is the lowest.
        gain_from_below: the best rate above ``below`` over the rate of ``below``: what stopping
            there gives away.
        at_edge: the start is the highest count measured, so still more workers could help.
        decided: the intervals allow no other start: every count below gains the tolerance or more
            by more workers, and no count above gains it over the start. Counts with a single run
            are taken by their value, except the start and its two neighbours, which need repeats.
    """

    start: int
    counts: tuple[int, ...]
    best_beyond: int | None
    gain_beyond: Ratio | None
    below: int | None
    gain_from_below: Ratio | None
    at_edge: bool
    decided: bool


def curves(points: Iterable[Point]) -> tuple[tuple[Point, ...], ...]:
    """Return the series over the worker count in the points of one condition, the longest first.

    Points of a series differ only in ``num_workers`` and have a rate. 0 workers has no prefetching,
    persistence or start method, so it belongs to every series that is equal in the rest. Only the
    parts "sweep" and "repeated" are taken; a count that is in both is there once (`by_count`).
    """
    rated = comparable(point for point in points if point.benchmark.part in _CURVE_PARTS)
    alone = [point for point in rated if point.workers == 0]
    groups: dict[LoaderSettings, list[Point]] = {}
    for point in rated:
        if point.workers > 0:
            groups.setdefault(_with_one_worker(point.benchmark.settings), []).append(point)
    joined = [
        [*(zero for zero in alone if _belongs(zero.benchmark.settings, settings)), *group]
        for settings, group in groups.items()
    ]
    left = [zero for zero in alone if not any(zero in group for group in joined)]
    made = [by_count(group) for group in (*joined, left) if group]
    return tuple(sorted(made, key=lambda group: (-len(group), -top_of(group).rate)))


def by_count(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points that have a rate, one for each worker count, ascending.

    Of two points with the same count the one with more runs is taken, because it is known better.
    """
    chosen: dict[int, Point] = {}
    for point in points:
        if point.rates is None:
            continue
        other = chosen.get(point.workers)
        if other is None or len(point.repeats) > len(other.repeats):
            chosen[point.workers] = point
    return tuple(chosen[count] for count in sorted(chosen))


def top_of(points: Iterable[Point]) -> Point:
    """Return the point with the highest rate, the first of equals."""
    return max(points, key=lambda point: point.rate)


def plateau(points: Iterable[Point], tolerance: float) -> Plateau:
    """Find the plateau's start among points that differ only in their worker count.

    Raises:
        ValueError: no point has a rate.
    """
    measured = _measured(points)
    rates = [point.rate for point in measured]
    at = next(
        i
        for i, rate in enumerate(rates)
        if max(rates[i + 1 :], default=0.0) < (1 + tolerance) * rate
    )
    start, lower, above = measured[at], measured[:at], measured[at + 1 :]
    best = top_of(above) if above else None
    # what more workers gain over each lower count, and over the start; the neighbours first
    gains = [_compare(top_of(measured[i:]), measured[i]) for i in range(at)][::-1]
    beyond = [_compare(point, start) for point in above]
    settled = [
        *_where_known(lower[::-1], [verdict_same(gain, tolerance) == "higher" for gain in gains]),
        *_where_known(above, [_no_gain(gain, tolerance) for gain in beyond]),
    ]
    return Plateau(
        start=start.workers,
        counts=tuple(point.workers for point in measured),
        best_beyond=best.workers if best else None,
        gain_beyond=_compare(best, start) if best else None,
        below=lower[-1].workers if lower else None,
        gain_from_below=gains[0] if gains else None,
        at_edge=not above,
        decided=bool(settled) and all(settled),
    )


def fastest_region(points: Iterable[Point], tolerance: float) -> tuple[int, ...]:
    """Return the worker counts that may be as fast as the fastest, ascending.

    A count is left out when its interval shows that it is slower by more than the tolerance; where
    there is no interval, when its value is. So with few or scattered runs the region is wide: what
    was not told apart is in it.

    Raises:
        ValueError: no point has a rate.
    """
    measured = _measured(points)
    best = top_of(measured)
    return tuple(point.workers for point in measured if _may_equal(point, best, tolerance))


def same_as(point: Point, other: Point, tolerance: float) -> Verdict:
    """Return `verdict_same` of two points' rates, "undecided" where one has none."""
    compared = compare_rates(point, other)
    return verdict_same(compared, tolerance) if compared is not None else "undecided"


def balanced(points: Iterable[Point]) -> int:
    """Return the fewest workers that reach 90 % of the fastest rate, by the medians.

    Nine tenths, because the last tenth often costs as many workers as all the rest: each is a
    process with its own memory, and its CPU time is missing elsewhere.

    Raises:
        ValueError: no point has a rate.
    """
    measured = _measured(points)
    enough = BALANCED_SHARE * top_of(measured).rate
    return next(point.workers for point in measured if point.rate >= enough)


def _measured(points: Iterable[Point]) -> tuple[Point, ...]:
    measured = by_count(points)
    if not measured:
        raise ValueError("no setting has a rate, so there is no curve over the worker count")
    return measured


def _with_one_worker(settings: LoaderSettings) -> LoaderSettings:
    return msgspec.structs.replace(settings, num_workers=1)


def _belongs(zero: LoaderSettings, settings: LoaderSettings) -> bool:
    return (zero.pin_memory, zero.batch_size) == (settings.pin_memory, settings.batch_size)


def _compare(a: Point, b: Point) -> Ratio:
    compared = compare_rates(a, b)
    assert compared is not None, "points of a curve have rates"
    return compared


def _no_gain(gain: Ratio, tolerance: float) -> bool:
    return gain.interval is not None and gain.interval.high <= 1 + tolerance


def _where_known(points: Sequence[Point], shown: Sequence[bool]) -> list[bool]:
    """Leave out what a single run cannot show, except for the start's neighbour, the first."""
    return [
        is_shown
        for i, (point, is_shown) in enumerate(zip(points, shown, strict=True))
        if i == 0 or len(point.repeats) > 1
    ]


def _may_equal(point: Point, best: Point, tolerance: float) -> bool:
    compared = _compare(point, best)
    high = compared.interval.high if compared.interval is not None else compared.value
    return high >= 1 - tolerance
