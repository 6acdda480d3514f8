"""The verdict for a job of a few epochs: the least time in all, start-up included."""

from __future__ import annotations

import msgspec

from feedrate.analysis.choosing import equal_enough, expense, fastest
from feedrate.analysis.conditions import Condition, finding
from feedrate.analysis.costs import costs, total
from feedrate.analysis.stats import Summary, ratio
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import median_of, spread
from feedrate.records import Finding
from feedrate.units import seconds


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What all epochs of the job take with one benchmark, in seconds, set-up not counted."""

    point: Point
    seconds: Summary
    repeats: tuple[int, ...]
    extrapolated: bool


def short_job(condition: Condition) -> Finding | None:
    """Name the settings that end ``plan_epochs`` epochs first; the cheaper among the same."""
    epochs = condition.procedure.plan_epochs
    jobs = _jobs(condition, epochs)
    best = fastest(condition.distinct, condition.tolerance)
    if len(jobs) < 2 or best is None:
        return None
    quickest = min(jobs, key=lambda job: job.seconds.median)
    as_quick = [job for job in jobs if _as_quick(job, quickest, condition.tolerance)]
    job = min(as_quick, key=lambda job: expense(job.point))
    other = next((each for each in jobs if each.point is best), None)
    count = f"{epochs:,} epoch{'' if epochs == 1 else 's'}"
    title = (
        f"a job of {count} takes the least time with {job.point.benchmark.label}: "
        f"{seconds(job.seconds.median)}{spread(job.seconds, seconds)}, set-up not counted"
    )
    if job.point is best:
        title += "; these are the settings for long jobs too"
    elif other is not None:
        title += (
            f"; {best.benchmark.label}, faster in the long run, would take "
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
            median_of(f"{count} with {job.point.benchmark.label}", job.seconds, "s")
            for job in shown
        ],
        remedy=f"For jobs of {count} use {job.point.benchmark.label}; "
        "--plan-epochs sets the number.",
    )


def _jobs(condition: Condition, epochs: int) -> list[Job]:
    made = []
    for point in condition.distinct:
        cost = costs(point)
        seconds = total(cost, epochs) if cost is not None else None
        if cost is not None and seconds is not None and seconds.low > 0:
            made.append(
                Job(
                    point=point,
                    seconds=seconds,
                    repeats=cost.repeats,
                    extrapolated=cost.extrapolated,
                )
            )
    return made


def _as_quick(job: Job, quickest: Job, tolerance: float) -> bool:
    paired = (job.repeats, job.point.benchmark.part) == (
        quickest.repeats,
        quickest.point.benchmark.part,
    )
    return equal_enough(
        ratio(job.seconds.values, quickest.seconds.values, paired=paired), tolerance
    )
