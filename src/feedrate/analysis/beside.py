"""Whether `feedrate.DataLoader` gives more than torch's, with what a tune ends at. Pure.

What it has to offer at a fixed number of workers is how batches travel. That is worth a look where
the loop still waits and the batches are large or many enough, and it is said only as far as runs
of both, in rotated order, show it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from feedrate.analysis.limiting import made
from feedrate.analysis.race import Duel, Entry, duel
from feedrate.analysis.signs import WAITS
from feedrate.analysis.tuned import Tuned
from feedrate.analysis.windows import Stretch, of_phase, together
from feedrate.analysis.wording import figure, percent, rate, ratio_of
from feedrate.records import Finding, Run
from feedrate.settings import LoaderSettings

_BYTES_A_SECOND = 2**30
"""What torch's workers hand over at least, of large tensors; only used to leave the comparison out
where even that is too fast to matter."""
_SECONDS_A_TENSOR = 0.0005
"""What each tensor takes at most besides, for its file in ``/dev/shm`` and its descriptor."""


def pair(tuned: Tuned, kind: str, against: Duel | None) -> tuple[LoaderSettings, ...]:
    """Return the settings that the tune ends at, and the same for feedrate's loader.

    ``kind`` and ``against`` are the answer so far. Empty where the transport cannot matter: without
    workers, where the loop does not wait, or where even slow copies would take less than the
    tolerance; or where nothing was settled.
    """
    settings, reached = _ends_at(tuned, kind, against)
    facts = tuned.facts
    if settings is None or reached is None or facts is None or not settings.num_workers:
        return ()
    raced = (run for each in tuned.race for run in each.benchmark.runs)
    is_ours = facts.loader == "feedrate" or _is_feedrates(tuned, raced)
    if is_ours or reached.wait_share < WAITS:
        return ()
    handing = facts.batch_bytes / _BYTES_A_SECOND + facts.batch_tensors * _SECONDS_A_TENSOR
    if handing * reached.batch_rate < tuned.procedure.tolerance:
        return ()
    return settings, msgspec.structs.replace(settings, loader="feedrate")


def compared(tuned: Tuned) -> Duel | None:
    """Return feedrate's loader against torch's; ``None`` where rounds of both are missing."""
    ours = next((each for each in tuned.beside if not each.own), None)
    if ours is None or not _is_feedrates(tuned, ours.benchmark.runs):
        return None
    return duel(tuned.beside, tuned.procedure.tolerance)


def finding(tuned: Tuned) -> Finding | None:
    """Say what feedrate's loader gives beside, where it surely gives more, or why it was not run.

    ``None`` where it was not tried, or gives nothing that matters.
    """
    ours = next((each for each in tuned.beside if not each.own), None)
    if ours is not None and ours.error is not None:
        return made(
            "tune.beside_failed",
            f"feedrate.DataLoader could not be measured beside it: {ours.error.sentence}",
        )
    found = compared(tuned)
    if found is None or not gives_more(tuned, found):
        return None
    low, high = _range(found)
    runs = f"{found.rounds} run{'' if found.rounds == 1 else 's'} of each"
    return made(
        "tune.beside",
        f"feedrate.DataLoader with the same settings delivers {rate(found.winner.rate)}, "
        f"{percent(found.ratio.value - 1)} more than torch's {rate(found.own.rate)} "
        f"({percent(low - 1)} to {percent(high - 1)}) in {runs}.",
        evidence=[
            ratio_of("rate of feedrate.DataLoader over torch's", found.ratio),
            figure("rate of feedrate.DataLoader", found.winner.rate, "items/s"),
        ],
        remedy="Import DataLoader from feedrate in place of torch's: it takes the same arguments.",
    )


def gives_more(tuned: Tuned, found: Duel) -> bool:
    """Say whether feedrate's loader is surely faster, and by enough to matter."""
    return found.surely_faster and found.ratio.value >= 1 + tuned.procedure.tolerance


def _ends_at(
    tuned: Tuned, kind: str, against: Duel | None
) -> tuple[LoaderSettings | None, Stretch | None]:
    """Return what stands at the end on torch's loader, and how the loop ran with it."""
    if kind in ("gain", "cheaper") and against is not None:
        return against.winner.settings, _reached(against.winner)
    if kind != "keep":
        return None, None
    own = tuned.own_entry
    return tuned.own, (_reached(own) if own is not None else None) or tuned.look


def _reached(entry: Entry) -> Stretch | None:
    runs = [run for run in entry.benchmark.runs if run.error is None]
    return together([window for run in runs for window in of_phase(run.windows, "static")])


def _is_feedrates(tuned: Tuned, runs: Iterable[Run]) -> bool:
    """Say whether feedrate's workers fetched for the training loader in one of the runs."""
    number = tuned.use.number if tuned.use is not None else None
    uses = (use for run in runs for use in run.loaders)
    return any(use.number == number and use.facts.loader == "feedrate" for use in uses)


def _range(found: Duel) -> tuple[float, float]:
    """Return the least and the most of what each round gave."""
    both = found.winner.rates.keys() & found.own.rates.keys()
    ratios = [found.winner.rates[number] / found.own.rates[number] for number in both]
    return min(ratios), max(ratios)
