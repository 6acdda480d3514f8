"""The verdict for a job of a few epochs: the least time in all, start-up included."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from feedrate.analysis.choosing import equal_enough, expense, fastest
from feedrate.analysis.conditions import SETTINGS, Condition, finding
from feedrate.analysis.costs import costs, total
from feedrate.analysis.stats import Summary, direction, ratio
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import median_of, spread, workers
from feedrate.records import Finding
from feedrate.settings import LoaderSettings
from feedrate.units import seconds


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What all epochs of the job take with one benchmark, in seconds, set-up not counted.

    ``later`` is what each later epoch takes, ``None`` where none was measured.
    """

    point: Point
    seconds: Summary
    later: Summary | None
    repeats: tuple[int, ...]
    extrapolated: bool


def short_job(condition: Condition) -> Finding | None:
    """Name the settings that end ``plan_epochs`` epochs first; the cheaper among the same."""
    epochs = condition.procedure.plan_epochs
    points = _told_apart(condition)
    jobs = _jobs(points, epochs)
    best = fastest(points, condition.tolerance)
    if len(jobs) < 2 or best is None:
        return None
    quickest = min(jobs, key=lambda job: job.seconds.median)
    as_quick = [job for job in jobs if _as_quick(job, quickest, condition.tolerance)]
    job = min(as_quick, key=lambda job: expense(job.point))
    other = next((each for each in jobs if each.point is best), None)
    count = f"{epochs:,} epoch{'' if epochs == 1 else 's'}"
    name = _name(condition, job.point)
    title = (
        f"a job of {count} takes the least time with {name}: "
        f"{seconds(job.seconds.median)}{spread(job.seconds, seconds)}, set-up not counted"
    )
    if job.point is best and job.later is not None:
        title += "; these are the settings for long jobs too"
    elif other is not None and _faster_later(other, job, condition.tolerance):
        title += (
            f"; {_name(condition, best)}, faster in the long run, would take "
            f"{seconds(other.seconds.median)}"
        )
    if job.extrapolated:
        title += "; epochs were cut short and are completed at the measured pace"
    shown = [job] if other is None or other is job else [job, other]
    return finding(
        condition,
        "sweep.short_job",
        f"{title}.",
        based_on=[job.point for job in jobs],
        evidence=[
            median_of(f"{count} with {_name(condition, each.point)}", each.seconds, "s")
            for each in shown
        ],
        remedy=f"For jobs of {count} use {name}"
        + ("." if condition.is_fixed else "; plan_epochs (--plan-epochs) sets the number."),
    )


def _told_apart(condition: Condition) -> tuple[Point, ...]:
    """Return the points that differ in more than what cannot matter: of equals the best known.

    Without an accelerator torch pins nothing.
    """
    if condition.metadata.accelerator is not None:
        return condition.distinct
    chosen: dict[LoaderSettings, Point] = {}
    for point in condition.distinct:
        settings = msgspec.structs.replace(point.benchmark.settings, pin_memory=None)
        other = chosen.get(settings)
        if other is None or len(point.repeats) > len(other.repeats):
            chosen[settings] = point
    return tuple(chosen.values())


def _name(condition: Condition, point: Point) -> str:
    """Return "2 workers, prefetch_factor 4": what varies, and can matter."""
    names = [
        name
        for name in SETTINGS
        if name != "pin_memory" or condition.metadata.accelerator is not None
    ]
    settings = condition.settings_of(point, names).removeprefix("with ")
    return f"{workers(point.workers)}{f', {settings}' if settings else ''}"


def _faster_later(other: Job, job: Job, tolerance: float) -> bool:
    """Say whether whole later epochs were measured in both, and take less time in ``other``."""
    if other.later is None or job.later is None or other.extrapolated or job.extrapolated:
        return False
    if other.later.low <= 0 or job.later.low <= 0:
        return False
    gain = ratio(job.later.values, other.later.values, paired=_paired(other, job))
    known = gain.interval is None or direction(gain) == "higher"
    return known and gain.value > 1 + tolerance


def _paired(a: Job, b: Job) -> bool:
    return (a.repeats, a.point.benchmark.part) == (b.repeats, b.point.benchmark.part)


def _jobs(points: Iterable[Point], epochs: int) -> list[Job]:
    made = []
    for point in points:
        cost = costs(point)
        seconds = total(cost, epochs) if cost is not None else None
        if cost is not None and seconds is not None and seconds.low > 0:
            made.append(
                Job(
                    point=point,
                    seconds=seconds,
                    later=cost.later,
                    repeats=cost.repeats,
                    extrapolated=cost.extrapolated,
                )
            )
    return made


def _as_quick(job: Job, quickest: Job, tolerance: float) -> bool:
    compared = ratio(job.seconds.values, quickest.seconds.values, paired=_paired(job, quickest))
    return equal_enough(compared, tolerance)
