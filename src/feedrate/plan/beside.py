"""After the race: what it ended at on torch's loader and on feedrate's, in rotated rounds. Pure."""

from __future__ import annotations

from feedrate.analysis.answering import answer
from feedrate.analysis.beside import pair
from feedrate.analysis.race import duel
from feedrate.analysis.tuned import Tuned
from feedrate.plan.race import LEAST_ROUNDS, ROUNDS
from feedrate.settings import LoaderSettings


def begin(tuned: Tuned) -> tuple[LoaderSettings, ...]:
    """Return the two that run beside each other, torch's first; empty where that has no use."""
    found = answer(tuned)
    return pair(tuned, found.kind, found.duel)


def next_beside(tuned: Tuned, budget_seconds: float) -> tuple[LoaderSettings, int] | None:
    """Return which of the two runs next, and in which round; ``None`` when they are through."""
    torchs, ours = sorted(tuned.beside, key=lambda each: not each.own)
    if not (torchs.sound and ours.sound):
        return None
    for number in range(ROUNDS):
        order = (torchs, ours) if number % 2 == 0 else (ours, torchs)
        left = [each for each in order if number not in each.rates]
        if len(left) == len(order) and number >= LEAST_ROUNDS:
            matters = ours.rate >= (1 + tuned.procedure.tolerance) * torchs.rate
            if not matters or _is_settled(tuned, number):
                return None
            runs = (*torchs.benchmark.runs, *ours.benchmark.runs)
            a_round = sum(run.seconds or 0.0 for run in runs) / number
            if tuned.spent + a_round > budget_seconds:
                return None
        if left:
            return left[0].settings, number
    return None


def _is_settled(tuned: Tuned, rounds: int) -> bool:
    """Say whether each round so far shows a gain that matters, and together that it is no noise.

    Of two rounds each has to show twice what matters.
    """
    tolerance = tuned.procedure.tolerance
    least = 1 + (2 if rounds <= LEAST_ROUNDS else 1) * tolerance
    found = duel(tuned.beside, tolerance)
    if found is None or not found.surely_faster:
        return False
    ours, torchs = found.winner.rates, found.own.rates
    return all(ours[each] >= least * torchs[each] for each in range(rounds))
