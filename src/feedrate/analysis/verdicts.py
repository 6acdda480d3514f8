"""All findings of a suite, and its best settings: what a table alone leaves to the reader.

Pure functions of what was measured: findings that the suite carries are not looked at, so a file
can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable

from feedrate.analysis import stability
from feedrate.analysis.choosing import fastest
from feedrate.analysis.conditions import Condition, by_loader, conditions
from feedrate.analysis.cpu_limit import near_limit
from feedrate.analysis.delivery import delivery, rates_comparable
from feedrate.analysis.failures import failed, skipped
from feedrate.analysis.loaders import compare_loaders
from feedrate.analysis.persistence import persistent_workers
from feedrate.analysis.pinning import pin_memory
from feedrate.analysis.prefetching import prefetch_memory
from feedrate.analysis.short_jobs import short_job
from feedrate.analysis.start_methods import start_methods
from feedrate.analysis.startup import startup
from feedrate.analysis.worker_counts import (
    balanced_choice,
    fastest_count,
    no_workers_best,
    plateau_start,
)
from feedrate.records import Benchmark, Finding, Suite

_Verdict = Callable[[Condition], Finding | None]

_VERDICTS: tuple[_Verdict, ...] = (
    delivery,
    failed,
    skipped,
    plateau_start,
    fastest_count,
    near_limit,
    balanced_choice,
    no_workers_best,
    pin_memory,
    startup,
    start_methods,
    persistent_workers,
    short_job,
    prefetch_memory,
)
# What is said of a workload once, whatever loaders it was measured with.
_OF_ALL_LOADERS: tuple[_Verdict, ...] = (failed, skipped)
# They hold worker counts against each other, which needs the same work with all of them.
_COMPARE_COUNTS: tuple[_Verdict, ...] = (
    plateau_start,
    fastest_count,
    near_limit,
    balanced_choice,
    no_workers_best,
    startup,
    short_job,
)
# Where no workers are best, these would say the same in other words.
_SAID_BY_NO_WORKERS_BEST = ("sweep.plateau_start", "sweep.fastest", "sweep.balanced")


def judge(suite: Suite) -> tuple[Finding, ...]:
    """Return the findings: condition by condition in the suite's order, then those of all of it.

    What puts the rates themselves in doubt comes first, and then no settings are recommended by
    them. Nothing is said about what was not measured; a suite without a successful run has findings
    about its failures only. Where loaders were told apart, each is judged by itself, and one
    finding compares them.
    """
    findings: list[Finding] = []
    for condition in conditions(suite):
        findings += _of_condition(condition)
        findings += stability.of_condition(condition)
    return (*findings, *stability.of_suite(suite))


def best(suite: Suite, condition: str | None = None) -> Benchmark | None:
    """Return the fastest settings, the cheaper ones where several are the same.

    ``condition`` defaults to the suite's first: rates of different workloads cannot be compared.
    ``None`` where nothing was measured, or where settings deliver different items.
    """
    for each in conditions(suite):
        if condition in (None, each.name):
            if not rates_comparable(each):
                return None
            chosen = fastest(each.distinct, each.tolerance)
            return chosen.benchmark if chosen is not None else None
    return None


def _of_condition(condition: Condition) -> list[Finding]:
    loaders = by_loader(condition)
    if loaders[0] is condition:
        return _of_loader(condition, _VERDICTS)
    made = [verdict(condition) for verdict in (*_OF_ALL_LOADERS, compare_loaders)]
    findings = [finding for finding in made if finding is not None]
    each = tuple(verdict for verdict in _VERDICTS if verdict not in _OF_ALL_LOADERS)
    for loader in loaders:
        findings += _of_loader(loader, each)
    return findings


def _of_loader(condition: Condition, verdicts: tuple[_Verdict, ...]) -> list[Finding]:
    left_out = () if rates_comparable(condition) else _COMPARE_COUNTS
    made = [verdict(condition) for verdict in verdicts if verdict not in left_out]
    findings = [finding for finding in made if finding is not None]
    if any(finding.code == "sweep.no_workers_best" for finding in findings):
        findings = [f for f in findings if f.code not in _SAID_BY_NO_WORKERS_BEST]
    return findings
