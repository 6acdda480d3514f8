"""All findings of a suite, and its best settings: what a table alone leaves to the reader.

Pure functions of what was measured: findings that the suite carries are not looked at, so a file
can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable

from feedrate.analysis import stability
from feedrate.analysis.choosing import fastest
from feedrate.analysis.conditions import Condition, conditions
from feedrate.analysis.failures import failed, skipped
from feedrate.analysis.persistence import persistent_workers
from feedrate.analysis.pinning import pin_memory
from feedrate.analysis.prefetching import prefetch_memory
from feedrate.analysis.short_jobs import short_job
from feedrate.analysis.startup import startup
from feedrate.analysis.worker_counts import (
    balanced_choice,
    fastest_count,
    no_workers_best,
    plateau_start,
)
from feedrate.records import Benchmark, Finding, Suite

_VERDICTS: tuple[Callable[[Condition], Finding | None], ...] = (
    failed,
    skipped,
    plateau_start,
    fastest_count,
    balanced_choice,
    no_workers_best,
    pin_memory,
    startup,
    persistent_workers,
    short_job,
    prefetch_memory,
)


def judge(suite: Suite) -> tuple[Finding, ...]:
    """Return the findings: condition by condition in the suite's order, then those of all of it.

    Nothing is said about what was not measured; a suite without a successful run has findings
    about its failures only.
    """
    findings: list[Finding] = []
    for condition in conditions(suite):
        made = (verdict(condition) for verdict in _VERDICTS)
        findings += [finding for finding in made if finding is not None]
        findings += stability.of_condition(condition)
    return (*findings, *stability.of_suite(suite))


def best(suite: Suite, condition: str | None = None) -> Benchmark | None:
    """Return the fastest settings, the cheaper ones where several are the same.

    ``condition`` defaults to the suite's first: rates of different workloads cannot be compared.
    ``None`` where nothing was measured.
    """
    for each in conditions(suite):
        if condition in (None, each.name):
            chosen = fastest(each.distinct, each.tolerance)
            return chosen.benchmark if chosen is not None else None
    return None
