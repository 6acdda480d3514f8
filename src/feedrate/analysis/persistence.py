"""The verdict on ``persistent_workers``: what keeping the workers saves an epoch."""

from __future__ import annotations

import itertools

import msgspec

from feedrate.analysis.conditions import Condition, finding, more_runs
from feedrate.analysis.costs import Costs, costs
from feedrate.analysis.plateau import top_of
from feedrate.analysis.runs import first_batch_seconds, later_epochs
from feedrate.analysis.stats import Ratio, Summary, direction, ratio, summary, verdict_same
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import figure, limit, median_of, percent, ratio_of, workers
from feedrate.records import Finding
from feedrate.units import seconds

_BOTH_WAYS = "persistent_workers off and on (--persistent-workers off,on)"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Two benchmarks that differ in ``persistent_workers`` alone, with their later epochs.

    ``loss`` is the later epoch without over the later epoch with kept workers.
    """

    on: Point
    off: Point
    with_kept: Summary
    without: Summary
    loss: Ratio

    @property
    def saved(self) -> float:
        """Seconds that keeping the workers saves an epoch; negative where it costs."""
        return self.without.median - self.with_kept.median


def persistent_workers(condition: Condition) -> Finding | None:
    """Say what kept workers save in each epoch after the first, as far as it was measured.

    Measured both ways, the epochs are compared. Measured only without, the time to the first
    batch of later epochs is what kept workers save at most; measured only with them, what start-up
    takes longer than the first batch of a later epoch is about what they save.
    """
    pairs = _pairs(condition)
    if pairs:
        return _compared(condition, max(pairs, key=lambda pair: pair.on.rate))
    working = [point for point in condition.distinct if point.workers > 0]
    if not working:
        return None
    choice = condition.choice
    point = choice if choice is not None and choice.workers > 0 else top_of(working)
    return _restarted(condition, point) if point.kind == "restarted" else _kept(condition, point)


def _compared(condition: Condition, pair: Kept) -> Finding:
    at = f"with {workers(pair.on.workers)}"
    figures = (
        f"later epochs take {seconds(pair.with_kept.median)} with it and "
        f"{seconds(pair.without.median)} without"
    )
    verdict, side = verdict_same(pair.loss, condition.tolerance), direction(pair.loss)
    again = more_runs(condition, (pair.on, pair.off))
    remedy = "Use persistent_workers=True." if pair.saved > 0 else "Leave persistent_workers off."
    if pair.loss.interval is None:
        title = (
            f"{at} later epochs take {seconds(pair.with_kept.median)} with persistent_workers and "
            f"{seconds(pair.without.median)} without"
        )
        remedy = again
    elif verdict == "same":
        title = (
            f"{at} persistent_workers makes no difference: {figures}, the same within "
            f"{limit(condition.tolerance)}"
        )
        remedy = "Leave persistent_workers as it is."
    elif verdict == "undecided" and side == "unclear":
        title = f"{at} it is undecided whether persistent_workers saves time: {figures}"
        remedy = again
    else:
        verb = "saves" if pair.saved > 0 else "costs"
        title = f"{at} persistent_workers {verb} {seconds(abs(pair.saved))} an epoch: {figures}"
    return finding(
        condition,
        "sweep.persistent_workers",
        f"{title}.",
        based_on=(pair.on, pair.off),
        evidence=[
            figure("saved by kept workers", pair.saved, "s"),
            ratio_of("later epoch without kept workers, over that with them", pair.loss),
            median_of("later epoch with kept workers", pair.with_kept, "s"),
            median_of("later epoch without kept workers", pair.without, "s"),
        ],
        remedy=remedy,
    )


def _restarted(condition: Condition, point: Point) -> Finding | None:
    again, cost = _later_first_batch(point), costs(point)
    if again is None or cost is None or cost.later is None or cost.later.median <= 0:
        return None
    share = again.median / cost.later.median
    return finding(
        condition,
        "sweep.persistent_workers",
        f"with {workers(point.workers)} each epoch starts them again and waits "
        f"{seconds(again.median)} for its first batch, {percent(share)} of the epoch: "
        f"persistent_workers saves that at most.",
        based_on=(point,),
        evidence=[
            median_of("time to the first batch of a later epoch", again, "s"),
            figure("share of the epoch", share, "share"),
        ],
        remedy=f"Measure what it saves: {_BOTH_WAYS}."
        if share > condition.tolerance and not condition.is_fixed
        else "",
    )


def _kept(condition: Condition, point: Point) -> Finding | None:
    again = _later_first_batch(point)
    if again is None or point.startup is None:
        return None
    saved = point.startup.median - again.median
    if saved <= 0:
        return None
    return finding(
        condition,
        "sweep.persistent_workers",
        f"with {workers(point.workers)} persistent_workers saves about {seconds(saved)} an epoch: "
        f"the first batch comes after {seconds(point.startup.median)} where workers start, and "
        f"after {seconds(again.median)} in a later epoch, where they are there already.",
        based_on=(point,),
        evidence=[
            figure("saved by kept workers, estimated", saved, "s"),
            median_of("start-up", point.startup, "s"),
            median_of("time to the first batch of a later epoch", again, "s"),
        ],
        remedy="" if condition.is_fixed else f"Measure it both ways to be sure: {_BOTH_WAYS}.",
    )


def _later_first_batch(point: Point) -> Summary | None:
    """Return the mean seconds to the first batch of the later epochs, one value for each run."""
    values = []
    for run in point.runs:
        firsts = [first_batch_seconds(epoch) for epoch in later_epochs(run)]
        if firsts:
            values.append(sum(firsts) / len(firsts))
    return summary(values)


def _pairs(condition: Condition) -> list[Kept]:
    pairs = []
    for a, b in itertools.combinations(condition.points, 2):
        if _apart_from_keeping(a) != _apart_from_keeping(b) or {a.kind, b.kind} != {
            "warm",
            "restarted",
        }:
            continue
        on, off = (a, b) if a.kind == "warm" else (b, a)
        with_kept, without = costs(on), costs(off)
        if with_kept is not None and without is not None:
            pair = _pair(on, off, with_kept, without)
            if pair is not None:
                pairs.append(pair)
    return pairs


def _pair(on: Point, off: Point, with_kept: Costs, without: Costs) -> Kept | None:
    if with_kept.later is None or without.later is None:
        return None
    if min(with_kept.later.low, without.later.low) <= 0:
        return None
    return Kept(
        on=on,
        off=off,
        with_kept=with_kept.later,
        without=without.later,
        loss=ratio(
            without.later.values,
            with_kept.later.values,
            paired=with_kept.repeats == without.repeats,
        ),
    )


def _apart_from_keeping(point: Point) -> tuple[object, str]:
    benchmark = point.benchmark
    return msgspec.structs.replace(benchmark.settings, persistent_workers=None), benchmark.part
