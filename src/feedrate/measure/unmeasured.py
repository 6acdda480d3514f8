"""Why a script that came to its end could not be measured, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from feedrate.measure.failure import describe_no_batches
from feedrate.measure.uses import Use
from feedrate.records import RunError


def describe_unmeasured(uses: Sequence[Use], is_asked_for: Callable[[Use], bool]) -> RunError:
    """Return what the script's loaders tell; ``is_asked_for`` names those that were to be used."""
    wanted = [use for use in uses if is_asked_for(use)]
    if not uses:
        sentence = (
            "the script ended without iterating a DataLoader in its main process: does it need "
            "arguments to train? If it trains in processes that it starts itself, name a function "
            "that returns the loader (train.py:make_loader)"
        )
    elif not wanted:
        sentence = (
            f"the script iterated {len(uses)} loader{'s' if len(uses) != 1 else ''}, and not the "
            "one that was asked for: numbers begin with 0"
        )
    elif not any(use.batches for use in wanted) and wanted[0].facts is not None:
        return describe_no_batches(wanted[0].facts)
    else:
        most = max(use.batches for use in wanted)
        sentence = (
            f"the script ended after {most} batch{'es' if most != 1 else ''} of a loader: that is "
            "too few to measure"
        )
    return RunError(kind="no_batches", sentence=sentence)
