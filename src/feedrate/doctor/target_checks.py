"""The checks of a target, in the order in which they are told: what breaks, is wrong, costs."""

from __future__ import annotations

from feedrate.doctor import (
    target_checks_batches,
    target_checks_failing,
    target_checks_items,
    target_checks_iterables,
    target_checks_memory,
    target_checks_pickling,
    target_checks_randomness,
    target_checks_settings,
    target_checks_speed,
    target_checks_threads,
    target_checks_workers,
)
from feedrate.doctor.checks import Check
from feedrate.doctor.target_check import of_target
from feedrate.doctor.target_facts import TargetFacts


def _nothing(_: TargetFacts) -> None:
    return None


def _untried(target: TargetFacts) -> str:
    return "; ".join(f"{each.what}: {each.why}" for each in target.untried)


CHECKS: tuple[Check, ...] = (
    *target_checks_failing.CHECKS,
    *target_checks_pickling.CHECKS,
    *target_checks_iterables.CHECKS,
    *target_checks_randomness.CHECKS,
    *target_checks_settings.CHECKS,
    *target_checks_memory.CHECKS,
    *target_checks_threads.CHECKS,
    *target_checks_speed.CHECKS,
    *target_checks_batches.CHECKS,
    *target_checks_workers.CHECKS,
    *target_checks_items.CHECKS,
    of_target("not tried", _nothing, _untried),
)
