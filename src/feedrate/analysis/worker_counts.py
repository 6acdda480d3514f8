"""Verdicts on the worker count: plateau start, fastest, balanced, and no workers at all."""

from __future__ import annotations

from collections.abc import Sequence

from feedrate.analysis.conditions import NEED_WORKERS, Condition, at_count, finding, more_runs
from feedrate.analysis.plateau import (
    BALANCED_SHARE,
    Plateau,
    balanced,
    fastest_region,
    plateau,
    same_as,
    top_of,
)
from feedrate.analysis.stats import Ratio, verdict_same
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import (
    change,
    figure,
    limit,
    listed,
    median_of,
    percent,
    rate,
    ratio_of,
    span,
    spread,
    workers,
)
from feedrate.records import Evidence, Finding
from feedrate.units import size


def plateau_start(condition: Condition) -> Finding | None:
    """Say from which worker count on more workers gain less than the tolerance."""
    curve = condition.curve
    if len(curve) < 2:
        return None
    found = plateau(curve, condition.tolerance)
    title, remedy = (_edge if found.at_edge else _plateau)(condition, found)
    return finding(
        condition,
        "sweep.plateau_start",
        title,
        based_on=_compared(curve, found),
        qualified=True,
        evidence=[
            figure("plateau start", found.start, "workers"),
            _gain("best rate beyond, over the start's", found.gain_beyond),
            _gain("best rate above the next lower count, over its own", found.gain_from_below),
        ],
        remedy=remedy,
    )


def fastest_count(condition: Condition) -> Finding | None:
    """Name the fastest worker count, and those that were not told apart from it."""
    curve = condition.curve
    if not curve:
        return None
    tolerance = condition.tolerance
    top = top_of(curve)
    region = fastest_region(curve, tolerance)
    others = [point for point in curve if point.workers in region and point is not top]
    same = [point for point in others if same_as(point, top, tolerance) == "same"]
    open_ = [point for point in others if point not in same]
    if len(curve) > 1:
        title = f"the rate is highest with {workers(top.workers)}: {_rate(top)}"
    else:
        title = f"the rate with {workers(top.workers)} is {_rate(top)}"
    if same:
        title += f"; with {_counts(same)} it is the same within {limit(tolerance)}"
    if open_ and any(len(point.repeats) > 1 for point in open_):
        title += f"; with {_counts(open_)} it may be as high"
    elif open_:
        title += f"; with {_counts(open_)} it comes within {limit(tolerance)}"
    return finding(
        condition,
        "sweep.fastest",
        f"{title}.",
        based_on=curve,
        qualified=True,
        about=top.workers,
        evidence=[
            figure("fastest", top.workers, "workers"),
            *(_rate_evidence(point) for point in (top, *others)),
        ],
        remedy=more_runs(condition, [top, *open_]) if open_ else "",
    )


def balanced_choice(condition: Condition) -> Finding | None:
    """Name the fewest workers that reach nine tenths of the fastest rate."""
    curve = condition.curve
    if len(curve) < 2:
        return None
    top, choice = top_of(curve), at_count(curve, balanced(curve))
    share = choice.rate / top.rate
    remedy = ""
    if choice is curve[0] is top:
        title = f"the balanced choice is the fastest, {workers(top.workers)}"
    elif choice is top:
        title = (
            f"the balanced choice is the fastest, {workers(top.workers)}: no fewer reach "
            f"{limit(BALANCED_SHARE)} of its rate"
        )
    else:
        title = (
            f"the balanced choice is {workers(choice.workers)}: {percent(share)} of the rate with "
            f"{top.workers}{_saved_memory(choice, top)}"
        )
        remedy = f"Use num_workers={choice.workers} where memory or CPUs are needed elsewhere."
    return finding(
        condition,
        "sweep.balanced",
        f"{title}.",
        based_on=(choice,) if choice is top else (choice, top),
        qualified=True,
        about=choice.workers,
        evidence=[
            figure("balanced choice", choice.workers, "workers"),
            figure("share of the highest rate", share, "share"),
            *(
                figure(f"peak memory with {workers(point.workers)}", point.peak_total, "bytes")
                for point in ((choice,) if choice is top else (choice, top))
                if point.peak_total is not None
            ),
        ],
        remedy=remedy,
    )


def no_workers_best(condition: Condition) -> Finding | None:
    """Say so where no worker count gains the tolerance over 0 workers."""
    curve = condition.curve
    if len(curve) < 2 or curve[0].workers > 0:
        return None
    found = plateau(curve, condition.tolerance)
    if found.start > 0 or found.gain_beyond is None or found.best_beyond is None:
        return None
    settled = "" if found.decided or len(curve[0].repeats) < 2 else ", as far as the runs tell"
    return finding(
        condition,
        "sweep.no_workers_best",
        f"the rate without workers is as high as any{settled}: "
        f"{_gains(_those(condition), found.best_beyond, found.gain_beyond)}.",
        based_on=_compared(curve, found),
        qualified=True,
        about=0,
        evidence=[
            _rate_evidence(curve[0]),
            _gain("best rate with workers, over that without", found.gain_beyond),
            median_of("share of waiting without workers", curve[0].wait_share, "share"),
        ],
        remedy="Use num_workers=0: workers cost memory and start-up and gain nothing here.",
    )


def _edge(condition: Condition, found: Plateau) -> tuple[str, str]:
    """Title and remedy where the highest count measured is the start."""
    highest = found.start
    between = highest + max(1, highest // 2)
    more = f"{highest},{between},{max(between + 1, 2 * highest)}"
    if found.below is None or found.gain_from_below is None:
        raise ValueError("a plateau at the edge of two counts or more has one below its start")
    title = (
        f"no plateau was reached: the most workers that were measured, {highest}, gain "
        f"{change(found.gain_from_below)} over {found.below}"
    )
    remedy = f"Measure more workers (--workers {more})."
    if not found.decided and len(condition.curve[-1].repeats) > 1:
        most = limit(condition.tolerance)
        title += f", though the runs do not settle that this is more than {most}"
        remedy = f"{remedy} {more_runs(condition, condition.curve)}"
    return f"{title}.", remedy


def _plateau(condition: Condition, found: Plateau) -> tuple[str, str]:
    """Title and remedy where a higher count was measured than the start."""
    curve, most = condition.curve, limit(condition.tolerance)
    if found.gain_beyond is None or found.best_beyond is None:
        raise ValueError("a plateau that is not at the edge has a count beyond its start")
    gained = _gains("more workers", found.best_beyond, found.gain_beyond)
    title = f"the plateau starts at {workers(found.start)}: {gained}"
    if _is_gain(found.gain_beyond):
        title += f", less than the tolerance of {most}"
    remedy = (
        "Use num_workers=0."
        if found.start == 0
        else (
            f"Use at most num_workers={found.start}: more take memory and CPU time and gain less "
            f"than {most}."
        )
    )
    if found.decided:
        return f"{title}.", remedy
    if any(len(point.repeats) > 1 for point in curve):
        title = (
            f"the plateau seems to start at {workers(found.start)}, but the runs do not settle it: "
            f"{_unsettled(condition, found)}"
        )
    return f"{title}.", more_runs(condition, curve)


def _unsettled(condition: Condition, found: Plateau) -> str:
    """Say which of the two comparisons next to the start is open."""
    beyond, below = found.gain_beyond, found.gain_from_below
    is_open = below is not None and verdict_same(below, condition.tolerance) != "higher"
    if is_open and below is not None and found.below is not None:
        return f"over {workers(found.below)}, more gain {change(below)}"
    if beyond is None or found.best_beyond is None:
        return "more were measured too seldom"
    return _gains("more workers", found.best_beyond, beyond)


def _gains(subject: str, count: int, gain: Ratio) -> str:
    """Say what the best count beyond gains, or that it gains nothing."""
    interval = f"; {span(gain.interval)}" if gain.interval is not None else ""
    if not _is_gain(gain):
        return f"{subject} gain nothing ({percent(gain.value - 1)} with {count}{interval})"
    return f"{subject} gain at most {percent(gain.value - 1)} (with {count}{interval})"


def _those(condition: Condition) -> str:
    """Name the workers of the curve: what applies to them alone is no setting of 0 workers."""
    return f"workers {condition.qualifier(only=NEED_WORKERS)}".rstrip()


def _is_gain(gain: Ratio) -> bool:
    """Say whether the gain would read as more than 0.0 %."""
    return gain.value - 1 >= 0.0005


def _compared(curve: Sequence[Point], found: Plateau) -> tuple[Point, ...]:
    """Return the points that the start was found by: itself, its neighbours, the best beyond."""
    at = found.counts.index(found.start)
    near = set(found.counts[max(0, at - 1) : at + 2]) | {found.best_beyond}
    return tuple(point for point in curve if point.workers in near)


def _rate(point: Point) -> str:
    return f"{rate(point.rate)}{spread(point.rates, rate)}"


def _counts(points: Sequence[Point]) -> str:
    if len(points) == 1:
        return workers(points[0].workers)
    return f"{listed(point.workers for point in points)} workers"


def _saved_memory(choice: Point, top: Point) -> str:
    if choice.peak_total is None or top.peak_total is None or choice.peak_total >= top.peak_total:
        return ""
    return f", and with {size(top.peak_total - choice.peak_total)} less memory at the peak"


def _rate_evidence(point: Point) -> Evidence | None:
    return median_of(f"rate with {workers(point.workers)}", point.rates, "items/s")


def _gain(name: str, gain: Ratio | None) -> Evidence | None:
    return ratio_of(name, gain) if gain is not None else None
