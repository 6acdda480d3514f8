"""The race: settings against the user's own, in rotated rounds, until one is left. Pure.

In the first round every candidate runs; after it those that are clearly behind leave, after the
second only the cheapest of the fastest and the user's own settings stay, and these two run against
each other to the end. So nothing is recommended that was not confirmed, and little time is spent
on what loses, or on what is beyond doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from feedrate.analysis.race import Entry, beyond_doubt, winner
from feedrate.analysis.tuned import Tuned
from feedrate.settings import LoaderSettings

ROUNDS = 5
LEAST_ROUNDS = 2
"""With fewer there is no interval: these are run though the budget is spent."""
_ENOUGH_FOR_NO_GAIN = 3
"""Rounds after which a candidate that is no faster by then is not held on to; two, where it is far
behind in each."""
_BEHIND = 2.0
"""How many tolerances a candidate may be behind after its first round: one value says little."""


def next_entry(tuned: Tuned, budget_seconds: float) -> tuple[LoaderSettings, int] | None:
    """Return which settings run next, and in which round; ``None`` when the race is over.

    All entries are in the suite already, those that have not run yet too.
    """
    tolerance = tuned.procedure.tolerance
    for number in range(ROUNDS):
        running = _running(tuned.race, number, tolerance)
        if not any(each.own for each in running) or len(running) < 2:
            return None
        order = [running[(number + at) % len(running)] for at in range(len(running))]
        left = [each for each in order if number not in each.rates]
        if len(left) == len(order) and not _goes_on(tuned, number, order, budget_seconds):
            return None
        if left:
            return left[0].settings, number
    return None


def _goes_on(tuned: Tuned, number: int, order: Sequence[Entry], budget_seconds: float) -> bool:
    """Say whether another round is worth its time and fits into what is left of it."""
    if number < LEAST_ROUNDS:
        return True
    own = next(each for each in order if each.own)
    slower = 1 - _BEHIND * tuned.procedure.tolerance
    if all(each.own or beyond_doubt(each, own) or _lost(each, own, slower) for each in order):
        return False
    if number >= _ENOUGH_FOR_NO_GAIN and all(each.rate <= own.rate for each in order):
        return False
    return tuned.spent + sum(each.seconds for each in order) <= budget_seconds


def _lost(one: Entry, own: Entry, share: float) -> bool:
    """Say whether an entry had less than a share of the user's own rate in each round so far."""
    both = one.rates.keys() & own.rates.keys()
    return bool(both) and all(one.rates[k] < share * own.rates[k] for k in both)


def _running(race: Sequence[Entry], number: int, tolerance: float) -> tuple[Entry, ...]:
    """Return the entries of a round, which all earlier rounds together decide."""
    whole = [each for each in race if each.sound]
    before = [_until(each, number) for each in whole]
    if number == 0:
        return tuple(whole)
    if number >= LEAST_ROUNDS:
        first = [_until(each, LEAST_ROUNDS) for each in whole]
        best = winner(first, tolerance)
        return tuple(e for e in whole if e.own or (best and e.settings == best.settings))
    top = max((each.rate for each in before if not each.own), default=0.0)
    enough = {
        each.settings for each in before if each.own or each.rate >= top * (1 - _BEHIND * tolerance)
    }
    return tuple(each for each in whole if each.settings in enough)


def _until(entry: Entry, number: int) -> Entry:
    """Return the entry as it stood before a round."""
    rates = {repeat: rate for repeat, rate in entry.rates.items() if repeat < number}
    return msgspec.structs.replace(entry, rates=rates)
