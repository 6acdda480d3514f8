"""Why a tune came to nothing at its first look, as one sentence and as the error that is raised."""

from __future__ import annotations

from feedrate.errors import FeedrateError, MeasuringTimeout, NothingMeasured, TargetError
from feedrate.records import Run, RunError


def no_loop(run: Run) -> str:
    """Return why the look found no loop to tune, with the way out."""
    if not run.loaders:
        return (
            "no DataLoader was iterated: give the script that trains, with the arguments that "
            "make it do so"
        )
    if run.training_loader is None:
        numbers = ", ".join(str(use.number) for use in run.loaders)
        return f"it is not clear which loader trains; name it with --loader N ({numbers})"
    return "the training loader delivered no batch: let the script run longer"


def as_raised(error: RunError) -> FeedrateError:
    """Return the error to raise for one that ended a child."""
    if error.kind == "target":
        return TargetError(error.sentence, details=error.traceback)
    kind = MeasuringTimeout if error.kind == "timeout" else NothingMeasured
    sentence = f"nothing could be measured: {error.sentence}"
    return kind(sentence, details=error.traceback)
