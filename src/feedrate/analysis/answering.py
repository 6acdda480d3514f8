"""What a tune comes to, in one word: settings that gain, none, or too little to tell.

Settings are recommended only as far as the race confirmed them: what the ramp alone speaks for is
"unconfirmed".
"""

from __future__ import annotations

from typing import Literal

import msgspec

from feedrate.analysis.candidates import candidates
from feedrate.analysis.possible import is_possible
from feedrate.analysis.race import Duel, duel
from feedrate.analysis.stats import verdict_same
from feedrate.analysis.tuned import Tuned

Kind = Literal[
    "nothing", "too_short", "step_bound", "gain", "cheaper", "keep", "undecided", "unconfirmed"
]

LEAST_BATCHES = 4
"""Fewer batches of the user's own settings than this are no measurement."""
_LEAST_SECONDS = 1.0
"""In which so few batches are one, though: the loop was measured to the end of its time."""
_WIDE = 4.0
"""How many tolerances wide an interval may be before it excludes nothing."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in one word, and the comparison behind it where there is one.

    "gain": the recommended settings are faster than the user's own. "cheaper": as fast with fewer
    workers. "keep": nothing was found that is worth a change. "undecided": what was confirmed
    leaves both possible. "unconfirmed": the search spoke for something that was not confirmed.
    "step_bound": a loader that costs nothing would gain less than the tolerance. "too_short": too
    few batches were delivered to measure. "nothing": nothing was measured.
    """

    kind: Kind
    duel: Duel | None = None


def answer(tuned: Tuned) -> Answer:
    """Return the answer that the measurements allow."""
    tolerance = tuned.procedure.tolerance
    if tuned.look is None or tuned.own is None:
        return Answer(kind="nothing")
    if too_short(tuned):
        return Answer(kind="too_short")
    found = duel(tuned.race, tolerance)
    if tuned.step_bound and (found is None or _kind(tuned, found) != "gain"):
        return Answer(kind="step_bound")
    if found is None:
        # the search ended at the user's own settings, or was itself cut off
        settled = tuned.levels and not tuned.race and _search_found_own(tuned)
        return Answer(kind="keep" if settled else "unconfirmed")
    return Answer(kind=_kind(tuned, found), duel=found)


def too_short(tuned: Tuned) -> bool:
    """Say whether the script gives too few batches to measure it, or to measure anything else."""
    look = tuned.look
    if look is not None and look.batches < LEAST_BATCHES:
        # few in a long time are slow steps, which are measured all the same
        return tuned.cached is None or look.batches < _LEAST_SECONDS * look.batch_rate
    searched = (*tuned.ramp_runs, *(run for each in tuned.level_runs for run in each.runs))
    errors = [run.error for run in searched if run.error is not None]
    return not tuned.levels and any(error.kind == "no_batches" for error in errors)


def _kind(tuned: Tuned, found: Duel) -> Kind:
    assert tuned.own is not None, "a race is run against known settings"
    interval = found.ratio.interval
    if interval is None:
        return "unconfirmed"
    tolerance = tuned.procedure.tolerance
    faster = found.surely_faster
    matters = found.ratio.value >= 1 + tolerance
    verdict = verdict_same(found.ratio, tolerance)
    if faster and matters:
        return "gain" if is_possible(tuned, found) else "undecided"
    fewer = found.winner.settings.num_workers < tuned.own.num_workers
    if fewer and (verdict == "same" or faster):
        return "cheaper"
    # so wide that it tells nothing, whatever the values say
    wide = interval.high > 1 + tolerance and interval.high - interval.low > _WIDE * tolerance
    return "undecided" if matters or (verdict == "undecided" and wide) else "keep"


def _search_found_own(tuned: Tuned) -> bool:
    return not candidates(tuned)
