"""The error to raise for one that ended a child."""

from __future__ import annotations

from feedrate.errors import FeedrateError, MeasuringTimeout, NothingMeasured, TargetError
from feedrate.records import RunError, Suite


def as_raised(error: RunError, what: str, suite: Suite | None = None) -> FeedrateError:
    """Return it, with what came of it in front and what there is of a result.

    A target that cannot be used is told by its own sentence alone.
    """
    if error.kind == "target":
        return TargetError(error.sentence, details=error.traceback, suite=suite)
    kind = MeasuringTimeout if error.kind == "timeout" else NothingMeasured
    return kind(f"{what}: {error.sentence}", details=error.traceback, suite=suite)
