"""What doctor knows, and how its checks are made and run: each a pure function of the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from feedrate.doctor.machine_facts import MachineFacts
from feedrate.doctor.target_facts import TargetFacts
from feedrate.records import Finding, LookedAt


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """All that was gathered, once. ``target`` is ``None`` where no target was named."""

    machine: MachineFacts
    target: TargetFacts | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked at.

    ``name`` is what people call it. ``find`` returns what is wrong or worth knowing, ``None`` where
    nothing is: of severity "error" or "warning" where something needs to be done, "info" where it
    is good to know. ``seen`` says with figures what was looked at, "" where there was nothing.
    """

    name: str
    find: Callable[[DoctorFacts], Finding | None]
    seen: Callable[[DoctorFacts], str]


def run_checks(
    checks: Iterable[Check], facts: DoctorFacts
) -> tuple[tuple[Finding, ...], tuple[LookedAt, ...]]:
    """Return what was found, in the checks' order, and what was looked at and is fine."""
    found: list[Finding] = []
    fine: list[LookedAt] = []
    for check in checks:
        finding = check.find(facts)
        if finding is not None:
            found.append(finding)
        elif seen := check.seen(facts):
            fine.append(LookedAt(name=check.name, seen=seen))
    return tuple(found), tuple(fine)


def needs_action(findings: Iterable[Finding]) -> bool:
    """Tell whether something needs to be done: whether one finding is more than information."""
    return any(finding.severity != "info" for finding in findings)
