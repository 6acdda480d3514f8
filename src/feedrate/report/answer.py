"""The lines that answer first: how many workers are enough, what they gain and what they cost."""

from __future__ import annotations

from collections.abc import Callable

from feedrate import units
from feedrate.analysis.conditions import Condition, at_count, caveat
from feedrate.analysis.delivery import rates_comparable
from feedrate.analysis.plateau import balanced, plateau
from feedrate.analysis.summary import Point
from feedrate.records import Benchmark
from feedrate.report.hanging import Hanging
from feedrate.report.table import CHOSEN
from feedrate.report.words import count

_EPOCHS = {"warm": "warm", "restarted": "in later epochs", "cold_only": "in the cold epoch"}


def balanced_point(condition: Condition) -> Point | None:
    """Return the fewest workers near the highest rate; ``None`` with nothing to compare.

    Settings that deliver different items cannot be compared.
    """
    if len(condition.curve) < 2 or not rates_comparable(condition):
        return None
    return at_count(condition.curve, balanced(condition.curve))


def chosen_in(condition: Condition) -> tuple[Benchmark, ...]:
    """Return the benchmarks whose rows are marked: all with the settings of the balanced choice."""
    point = balanced_point(condition)
    if point is None:
        return ()
    return tuple(
        other.benchmark
        for other in condition.points
        if other.rates is not None and other.benchmark.settings == point.benchmark.settings
    )


def render_answer(condition: Condition, *, items: str) -> Hanging | None:
    """Return the lines below the tables of a condition; ``None`` with nothing to compare."""
    point = balanced_point(condition)
    if point is None or point.rates is None:
        return None
    rates = [other.rates.median for other in condition.curve if other.rates is not None]
    verdict = caveat(condition, condition.curve, about=point.workers) + _verdict(condition, point)
    if condition.loader:
        verdict = f"{condition.loader}'s loader: {verdict[:1].lower()}{verdict[1:]}"
    rest = _rate(point, max(rates), items, _epochs(condition, point))
    fewest = condition.curve[0]
    if fewest is not point and fewest.rates is not None:
        times = units.ratio(point.rates.median / fewest.rates.median)
        rest += f", {times} that of {count(fewest.workers, 'worker')}"
    text = f"{verdict}{rest}.{_costs(point, fewest)}"
    return Hanging(f"{CHOSEN} ", text, lead_style="bold", strong=verdict)


def _verdict(condition: Condition, point: Point) -> str:
    """Return what to do; nothing is enough while the most workers measured are the fastest yet."""
    workers = f"{count(point.workers, 'worker')} {'is' if point.workers == 1 else 'are'}"
    if not plateau(condition.curve, condition.tolerance).at_edge:
        return f"{workers} enough"
    most = condition.curve[-1].workers
    speed = "the fastest" if point.workers == most else f"nearly as fast as {most}"
    return f"{workers} {speed}, and more were not measured"


def _epochs(condition: Condition, point: Point) -> str:
    """Say which epochs the rate is of, as the table's head does: warm only where all are."""
    restarted = any(other.kind == "restarted" for other in condition.points)
    return _EPOCHS["restarted" if restarted and point.kind == "warm" else point.kind]


def _rate(point: Point, highest: float, items: str, epochs: str) -> str:
    rate = point.rates.median if point.rates is not None else 0.0
    share = (
        f"{units.share(rate / highest)} of the highest rate" if rate < highest else "the highest"
    )
    return f": {units.rate(rate)} {items}/s {epochs}, {share}"


def _costs(point: Point, fewest: Point) -> str:
    costs = []
    if point.peak_total is not None:
        than = _than(fewest, point, fewest.peak_total, units.size)
        costs.append(f"{units.size(point.peak_total)} of memory{than}")
    if point.startup is not None:
        start = fewest.startup.median if fewest.startup is not None else None
        than = _than(fewest, point, start, units.seconds)
        costs.append(f"{units.seconds(point.startup.median)} to the first batch{than}")
    return f" Cost: {', '.join(costs)}." if costs else ""


def _than(fewest: Point, point: Point, value: float | None, write: Callable[[float], str]) -> str:
    if fewest is point or value is None:
        return ""
    return f" ({write(value)} with {fewest.workers})"
