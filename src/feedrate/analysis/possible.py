"""What a loader can give at most, by the time that the loop waits for it. Pure.

Without workers nothing runs beside the step, so it takes as long whatever feeds the loop: a gain
beyond the time that was waited is not the loader's. Then the step itself has changed between the
runs, as it does while other programs come and go. With workers the step may be slowed down by
them, and no such bound is known.
"""

from __future__ import annotations

from feedrate.analysis.race import Duel, Entry
from feedrate.analysis.tuned import Tuned
from feedrate.analysis.windows import of_phase, together
from feedrate.analysis.wording import percent

_SPARE = 2.0
"""How many tolerances beyond the bound are left to the noise of both figures."""


def most_ratio(tuned: Tuned, own: Entry) -> float | None:
    """Return the highest rate that a loader can give over the user's own; ``None`` if not known."""
    if own.settings.num_workers:
        return None
    stretches = [together(of_phase(run.windows, "static")) for run in own.benchmark.runs]
    shares = [each.wait_share for each in (tuned.look, *stretches) if each is not None]
    share = max(shares, default=1.0)
    return 1 / (1 - share) if share < 1 else None


def is_possible(tuned: Tuned, found: Duel) -> bool:
    """Say whether the loader can be what makes the winner faster."""
    most = most_ratio(tuned, found.own)
    if most is None or found.winner.settings.batch_size is not None:
        return True
    return found.ratio.value <= most * (1 + _SPARE * tuned.procedure.tolerance)


def doubt(tuned: Tuned, found: Duel) -> str:
    """Return why a gain is none of the loader's, and "" where it may be one."""
    most = most_ratio(tuned, found.own)
    if most is None or is_possible(tuned, found):
        return ""
    return (
        f"by the time that the loop waits a loader gains {percent(most - 1)} at most, so the step "
        "itself has changed"
    )
