"""How a check of a target is made: of its facts, where there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.target_facts import TargetFacts
from feedrate.records import Evidence, Finding, Severity

Find = Callable[[TargetFacts], Finding | None]
Seen = Callable[[TargetFacts], str]


def nothing(_: TargetFacts) -> str:
    """Say nothing of what was looked at."""
    return ""


def of_target(name: str, find: Find, seen: Seen = nothing) -> Check:
    """Return a check that finds nothing where no target was named."""

    def find_it(facts: DoctorFacts) -> Finding | None:
        return find(facts.target) if facts.target is not None else None

    def say(facts: DoctorFacts) -> str:
        return seen(facts.target) if facts.target is not None else ""

    return Check(name, find_it, say)


def found(
    code: str,
    severity: Severity,
    title: str,
    *,
    why: str = "",
    remedy: str = "",
    evidence: Iterable[Evidence] = (),
) -> Finding:
    """Return a finding."""
    return Finding(
        code=code,
        severity=severity,
        title=title,
        why=why,
        remedy=remedy,
        evidence=tuple(evidence),
    )


def figure(name: str, value: float, unit: str) -> Evidence:
    """Return one figure of evidence."""
    return Evidence(name=name, value=float(value), unit=unit)


def workers(count: int) -> str:
    """Return "1 worker", "4 workers"."""
    return f"{count} worker{'' if count == 1 else 's'}"
