"""Trials as evidence: which are faster beyond doubt, and how that is said."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import Duel, Question
from feedrate.records import Evidence

GAIN = 1.15
"""Less than this over a few short windows may be chance."""
NOISY, _GAIN_IN_NOISE = 0.2, 2.0
"""The share of the CPUs that other programs take from which on only a large gain counts."""


def is_noisy(target: TargetFacts) -> bool:
    """Tell whether other programs took so much of the CPUs that times alone prove little."""
    return (target.others or 0.0) > NOISY


def faster(target: TargetFacts, question: Question) -> Duel | None:
    """Return a trial that was faster beyond doubt.

    Where other programs took much of the CPUs meanwhile, only a large gain is.
    """
    duel = target.duel(question)
    least = _GAIN_IN_NOISE if is_noisy(target) else GAIN
    return duel if duel is not None and duel.is_clear and duel.gain >= least else None


def evidence_of(duel: Duel, other: str) -> tuple[Evidence, ...]:
    """Return the figures of a trial; ``other`` says what was changed, as in "with ..."."""
    return (
        Evidence(
            name=f"rate {other} over its own",
            value=duel.gain,
            unit="ratio",
            low=min(duel.other) / max(duel.own),
            high=max(duel.other) / min(duel.own),
        ),
        figure("rate as it is", sorted(duel.own)[len(duel.own) // 2], "items/s"),
        figure(f"rate {other}", sorted(duel.other)[len(duel.other) // 2], "items/s"),
    )


def gain_of(duel: Duel) -> str:
    """Return the gain of a trial in words."""
    return f"{units.ratio(duel.gain)} as many items/s"
