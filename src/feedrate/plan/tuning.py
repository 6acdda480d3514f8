"""The course of a tune: what to run next, as a function of what was measured so far. Pure.

A look at the script as it is, with the ceiling; an end right there where nothing can be gained; a
ramp of the workers, or single runs where the loader cannot be ramped; then a race of what the
measurements speak for against the user's own settings; and, where time is left, what that ends at
once more beside feedrate's own loader. The time budget shortens the ramp and the runs of the race
first, then the number of its rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from feedrate.analysis.answering import too_short
from feedrate.analysis.candidates import candidates
from feedrate.analysis.tuned import BESIDE, NO_TIME, RACE, Tuned, cheapest
from feedrate.plan.beside import begin, next_beside
from feedrate.plan.need import objection, predict
from feedrate.plan.race import LEAST_ROUNDS, ROUNDS, next_entry
from feedrate.records import Benchmark, Run
from feedrate.settings import Budget, LoaderSettings

MOST_WORKERS = 32
"""Where nothing else limits them: what waits for storage seldom gains beyond."""

_LOOK_SHARE, _LOOK_SECONDS = 0.05, (2.0, 10.0)
_RAMP_SHARE, _RAMP_SECONDS = 0.3, (5.0, 30.0)
_STATIC_SHARE, _STATIC_SECONDS = 0.025, (1.0, 4.0)
"""More rounds tell more than longer runs: it is processes that differ."""
_CONFIRM_SECONDS = (1.0, 2.0)
"""Of a search that is known already: a quick answer."""
_BESIDE_SHARE = 1 / 60
"""Shorter, for it decides nothing."""
_GUESS_SECONDS = 2.0
_BETWEEN = 2  # so many levels are tried between those that double
_SEARCH_SHARE = 0.6
"""The share of the budget after which single runs at levels stop, for the race needs the rest."""

Reason = Literal["too_short", "step_bound", "nothing_found", "own_is_best", "does_not_fit", "raced"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a tune may use. Bytes are what is free or allowed now, ``None``: not known."""

    seconds: float
    most_workers: int
    free: Budget


class Looking(msgspec.Struct, frozen=True, kw_only=True):
    """Measure the script as it is, then fed by one batch, for so many seconds each."""

    seconds: float


class Ramping(msgspec.Struct, frozen=True, kw_only=True):
    """Let the workers grow until settled or the seconds are over."""

    seconds: float
    most_workers: int


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """Measure a loader that cannot be ramped with so many workers."""

    settings: LoaderSettings
    seconds: float


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that the measurements speak for and the limits do not allow, and why."""

    settings: LoaderSettings
    reason: str


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Run settings in a round of the race, or of what runs beside it after its end.

    ``entries`` are all that take part, own ones first; ``refused`` those that would.
    """

    settings: LoaderSettings
    repeat: int
    seconds: float
    entries: tuple[LoaderSettings, ...]
    refused: tuple[Refused, ...] = ()
    part: str = RACE


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing more is to be run; ``refused`` is what would be, were there more memory."""

    reason: Reason
    refused: tuple[Refused, ...] = ()


Step = Looking | Ramping | Level | Round | Done


def next_step(tuned: Tuned, limits: Limits) -> Step:
    """Return what comes next. The look has succeeded, or is yet to come."""
    if tuned.look is None or tuned.own is None:
        return Looking(seconds=_clamped(_LOOK_SHARE * limits.seconds, _LOOK_SECONDS))
    if too_short(tuned):
        return Done(reason="too_short")
    if tuned.step_bound and not candidates(tuned):
        return Done(reason="step_bound")
    if not tuned.race and not tuned.step_bound:
        search = _search(tuned, limits)
        if search is not None:
            return search
    step = _race(tuned, limits)
    return (_beside(tuned, limits) or step) if isinstance(step, Done) else step


def refusal(tuned: Tuned, settings: LoaderSettings, limits: Limits) -> str | None:
    """Return why the limits do not allow the settings; ``None`` if they do."""
    if settings.num_workers > limits.most_workers:
        return f"{limits.most_workers} workers are the most allowed"
    return objection(predict(settings, (*tuned.runs, *tuned.ramp_runs)), limits.free)


def static_seconds(tuned: Tuned, limits: Limits, entries: int) -> float:
    """Return how long each run of the race may measure, so that all rounds fit into the budget."""
    raced = {run.position for each in tuned.race for run in each.benchmark.runs}
    before = [run for run in tuned.runs if run.position not in raced]
    runs = 2 * ROUNDS + max(0, entries - 2)
    left = limits.seconds - sum(run.seconds or 0.0 for run in before)
    seconds = min(left / runs - _around(before), _STATIC_SHARE * limits.seconds)
    return _clamped(seconds, _CONFIRM_SECONDS if tuned.earlier else _STATIC_SECONDS)


def _around(runs: Sequence[Run]) -> float:
    """Return the seconds that a child takes besides what it measures."""
    around = [
        max(0.0, (run.seconds or 0.0) - sum(window.seconds for window in run.windows))
        for run in runs
        if run.windows
    ]
    return min(around, default=0.0)


def _search(tuned: Tuned, limits: Limits) -> Step | None:
    """Return the next step towards a curve over the workers; ``None`` where there is one."""
    facts = tuned.facts
    assert facts is not None, "the look has found the loader"
    if tuned.earlier:
        return None
    most = limits.most_workers
    if tuned.ramp_runs:
        most = min(most, _most_after_a_break(tuned, limits))
    if most and not facts.iterable:
        seconds = _clamped(_RAMP_SHARE * limits.seconds, _RAMP_SECONDS)
        return Ramping(seconds=seconds, most_workers=most)
    if tuned.ramped:
        return None
    level = _next_level(tuned, limits)
    if level is None:
        return None
    return Level(settings=LoaderSettings(num_workers=level), seconds=_GUESS_SECONDS)


def _most_after_a_break(tuned: Tuned, limits: Limits) -> int:
    """Return how far to ramp once more after a worker died, 0 where that is not worth it.

    A ramp jumps to where it foresees the knee: if that broke, half as many may hold. Where some
    number of workers has held, only as long as the race keeps its share of the budget.
    """
    broken = tuned.broken_level
    if broken is None:
        return 0
    held = max((each.level for each in tuned.levels if each.level < broken), default=0)
    if held and tuned.spent > _SEARCH_SHARE * limits.seconds:
        return 0
    return broken // 2 if broken // 2 > held else 0


def _next_level(tuned: Tuned, limits: Limits) -> int | None:
    """Return the next worker count for single runs: doubling while that gains, then one between."""
    tried = {each.settings.num_workers for each in tuned.level_runs}
    failed = {b.settings.num_workers for b in tuned.level_runs if _failed(b)}
    if tried and tuned.spent > _SEARCH_SHARE * limits.seconds:
        return None
    rates = {each.level: each.rate for each in tuned.levels if each.level not in failed}
    highest = max(tried, default=0)
    below = max((rate for level, rate in rates.items() if level < highest), default=0.0)
    gains = rates.get(highest, 0.0) >= (1 + tuned.procedure.tolerance) * below
    doubled = sum(1 for each in tried if each & (each - 1) == 0)
    if highest == 0 or (highest not in failed and gains and len(tried) == doubled):
        level = min(2 * highest or _lowest(tuned), limits.most_workers)
    elif len(tried) - doubled < _BETWEEN:
        level = _between(tuned, tried, failed)
    else:
        return None
    if level in tried or level == 0:
        return None
    refused = refusal(tuned, LoaderSettings(num_workers=level), limits)
    return level if refused is None else None


def _lowest(tuned: Tuned) -> int:
    """Return the power of two to begin with: a quarter of the knee, where that can be foreseen."""
    knee = tuned.roof.knee or 1.0
    return 1 << int(math.log2(max(1.0, knee / 4)))


def _between(tuned: Tuned, tried: set[int], failed: set[int]) -> int:
    """Return a level between the cheapest of the fastest and its neighbour, 0 where none is left.

    Upwards where the next level failed, downwards otherwise: fewer may be enough.
    """
    sound = [each for each in tuned.levels if each.level not in failed]
    best = cheapest(sound, tuned.procedure.tolerance)
    if best is None:
        return 0
    above = min((each for each in tried if each > best.level), default=0)
    if above in failed:
        return (best.level + above) // 2
    under = max((each for each in tried if each < best.level), default=0)
    return (under + best.level) // 2


def _race(tuned: Tuned, limits: Limits) -> Step:
    if not tuned.race:
        return _first_round(tuned, limits)
    found = next_entry(tuned, limits.seconds)
    if found is None:
        return Done(reason="raced")
    entries = tuple(each.settings for each in tuned.race if each.benchmark.skipped is None)
    return Round(
        settings=found[0],
        repeat=found[1],
        seconds=static_seconds(tuned, limits, len(entries)),
        entries=entries,
    )


def _first_round(tuned: Tuned, limits: Limits) -> Step:
    assert tuned.own is not None, "the look has found the loader"
    found = candidates(tuned)
    if not found:
        return Done(reason="own_is_best" if tuned.levels else "nothing_found")
    reasons = {each: refusal(tuned, each, limits) for each in found}
    able = tuple(each for each in found if reasons[each] is None)
    for each in able[_most_candidates(tuned, limits) :]:
        reasons[each] = NO_TIME
    refused = tuple(
        Refused(settings=each, reason=reason) for each, reason in reasons.items() if reason
    )
    entries = (tuned.own, *(each for each in able if reasons[each] is None))
    if not able:
        return Done(reason="does_not_fit", refused=refused)
    return Round(
        settings=tuned.own,
        repeat=0,
        seconds=static_seconds(tuned, limits, len(entries)),
        entries=entries,
        refused=refused,
    )


def _beside(tuned: Tuned, limits: Limits) -> Step | None:
    """Return the next run beside the race; ``None`` where it has no use, no room or no time."""
    entries = tuple(each.settings for each in tuned.beside) or begin(tuned)
    if not entries:
        return None
    seconds = _clamped(_BESIDE_SHARE * limits.seconds, _STATIC_SECONDS)
    if tuned.beside:
        found = next_beside(tuned, limits.seconds)
    else:
        least = 2 * LEAST_ROUNDS * (seconds + _around(tuned.runs))
        fits = tuned.spent + least <= limits.seconds and not refusal(tuned, entries[1], limits)
        found = (entries[0], 0) if fits else None
    if found is None:
        return None
    return Round(settings=found[0], repeat=found[1], seconds=seconds, entries=entries, part=BESIDE)


def _most_candidates(tuned: Tuned, limits: Limits) -> int:
    """Return how many candidates the time budget holds, each as long as the look; one at least."""
    seconds = min((run.seconds for run in tuned.runs if run.seconds), default=1.0)
    runs = (limits.seconds - tuned.spent) / seconds
    return max(1, int(runs / LEAST_ROUNDS) - 1)


def _failed(benchmark: Benchmark) -> bool:
    return any(run.error is not None for run in benchmark.runs)


def _clamped(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return min(max(value, low), high)
