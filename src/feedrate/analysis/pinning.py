"""The verdict on ``pin_memory``."""

from __future__ import annotations

import itertools

import msgspec

from feedrate.analysis.conditions import Condition, finding, more_runs
from feedrate.analysis.stats import Ratio, direction, verdict_same
from feedrate.analysis.summary import Point, compare_rates
from feedrate.analysis.wording import change, figure, limit, ratio_of, workers
from feedrate.records import Evidence, Finding


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two benchmarks that differ in ``pin_memory`` alone; ``gain`` is on over off."""

    off: Point
    on: Point
    gain: Ratio


def pin_memory(condition: Condition) -> Finding | None:
    """Say whether pinned memory is faster, slower or makes no difference.

    Without an accelerator it cannot matter, whatever the figures say: torch pins nothing then
    (torch.utils.data.DataLoader, ``pin_memory``).
    """
    pairs = _pairs(condition)
    if condition.metadata.accelerator is None:
        return _cannot_matter(condition, pairs)
    if not pairs:
        return None
    # The best known pair speaks; of equals the one with the most workers, where copies count most.
    main = max(pairs, key=lambda pair: (len(pair.on.repeats), pair.on.workers))
    title, remedy = _words(condition, main)
    return finding(
        condition,
        "sweep.pin_memory",
        title,
        based_on=(main.off, main.on),
        evidence=[_gain(pair) for pair in (main, *(pair for pair in pairs if pair is not main))],
        remedy=remedy,
    )


def _words(condition: Condition, pair: Pair) -> tuple[str, str]:
    at, gained = f"with {workers(pair.on.workers)}", change(pair.gain)
    verdict, side = verdict_same(pair.gain, condition.tolerance), direction(pair.gain)
    again = more_runs(condition, (pair.off, pair.on))
    if pair.gain.interval is None:
        return f"pin_memory changes the rate by {gained} {at}, which may be chance.", again
    if verdict == "same":
        title = (
            f"pin_memory makes no difference {at}: {gained}, within {limit(condition.tolerance)}."
        )
        return title, "Leave pin_memory as it is."
    if verdict == "undecided" and side == "unclear":
        return f"whether pin_memory makes a difference {at} is undecided: {gained}.", again
    better = "higher" in (verdict, side)
    unsure = ", by an undecided amount" if verdict == "undecided" else ""
    title = f"pin_memory is {'better' if better else 'worse'} {at}{unsure}: {gained}."
    remedy = f"Use pin_memory={better}."
    return title, f"{remedy} {again}" if unsure else remedy


def _gain(pair: Pair) -> Evidence:
    return ratio_of(f"rate with pinning over without, {workers(pair.on.workers)}", pair.gain)


def _cannot_matter(condition: Condition, pairs: tuple[Pair, ...]) -> Finding | None:
    if not pairs and not any(_pinned(point) for point in condition.distinct):
        return None
    return finding(
        condition,
        "sweep.pin_memory",
        "pin_memory cannot matter here: there is no accelerator, and torch ignores it without one.",
        evidence=[
            figure("accelerators", 0, "devices"),
            *(_gain(pair) for pair in pairs),
        ],
        remedy="Measure on the machine with the accelerator to learn whether it matters there.",
    )


def _pairs(condition: Condition) -> tuple[Pair, ...]:
    """Return the pairs of one part each, so that runs of a pair are neighbours in time."""
    made = []
    for a, b in itertools.combinations(condition.points, 2):
        if _apart_from_pinning(a) != _apart_from_pinning(b):
            continue
        off, on = (a, b) if _pinned(b) else (b, a)
        gain = compare_rates(on, off)
        if gain is not None and on.kind == off.kind and _pinned(on) and _pinned(off) is False:
            made.append(Pair(off=off, on=on, gain=gain))
    return tuple(made)


def _apart_from_pinning(point: Point) -> tuple[object, str]:
    benchmark = point.benchmark
    return msgspec.structs.replace(benchmark.settings, pin_memory=None), benchmark.part


def _pinned(point: Point) -> bool | None:
    """Return what was asked for, or what the target has; ``None`` where neither is known."""
    asked = point.benchmark.settings.pin_memory
    if asked is not None:
        return asked
    return next((run.facts.pin_memory for run in point.runs if run.facts is not None), None)
