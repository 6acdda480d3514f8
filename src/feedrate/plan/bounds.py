"""What a procedure may ask for: bounds beyond which nobody can mean it."""

from __future__ import annotations

import math
import numbers

from feedrate.errors import UsageError
from feedrate.records import Procedure

MOST_REPEATS = 10_000
MOST = 10**9
"""Of epochs and batches; beyond it a file's numbers would no longer be exact everywhere."""
SEEDS = range(-(2**63), 2**64)
"""What torch takes."""


def check(procedure: Procedure, seed: int | None) -> None:
    """Return if the procedure and the seed can be meant.

    Raises:
        UsageError: it names the first that cannot, and its bounds.
    """
    for name, value, most in (
        ("epochs", procedure.epochs, MOST),
        ("repeats", procedure.repeats, MOST_REPEATS),
        ("max_batches", procedure.max_batches, MOST),
        ("plan_epochs", procedure.plan_epochs, MOST),
    ):
        if value is not None and not (_is_whole(value) and 1 <= value <= most):
            raise UsageError(f"{name} must be 1 to {most}, not {_shown(value)}")
    timeout = procedure.timeout_seconds
    if not (_is_number(timeout) and 0 < timeout < math.inf):
        raise UsageError(f"timeout must be a number of seconds above 0, not {_shown(timeout)}")
    step = procedure.step_seconds
    if step is not None and not 0 <= step < timeout:
        raise UsageError(
            f"step_ms must be 0 or more and less than the timeout ({timeout:g} s), "
            f"not {step * 1000:g}"
        )
    tolerance = procedure.tolerance
    if not (_is_number(tolerance) and 0 <= tolerance <= 0.5):
        raise UsageError(f"tolerance must be 0 to 0.5, not {_shown(tolerance)}")
    if seed is not None and not (_is_whole(seed) and seed in SEEDS):
        raise UsageError(f"seed must be -2**63 to 2**64 - 1, as torch has it, not {_shown(seed)}")


def step_seconds(step_ms: float | None) -> float | None:
    """Return the seconds of a step that is given in milliseconds.

    Raises:
        UsageError: it is no number.
    """
    if step_ms is None:
        return None
    if not _is_number(step_ms):
        raise UsageError(f"step_ms must be a number of milliseconds, not {_shown(step_ms)}")
    return step_ms / 1000


def check_seconds(name: str, value: float) -> None:
    """Return if a stretch of time can be meant.

    Raises:
        UsageError: it is no number, shorter than a second, or has no end.
    """
    if not (_is_number(value) and 1 <= value < math.inf):
        raise UsageError(f"{name} must be a number of seconds of 1 or more, not {_shown(value)}")


def check_least(least: int, **counts: int | None) -> None:
    """Return if the counts that are given are whole numbers, and none is below ``least``.

    Raises:
        UsageError: it names the first that cannot be meant.
    """
    for name, value in counts.items():
        if value is not None and not (_is_whole(value) and value >= least):
            raise UsageError(f"{name} must be {least} or more, not {_shown(value)}")


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Return a value as it was written: a text in quotes, for the quotes are the mistake."""
    return f"{value:g}" if isinstance(value, float) else repr(value)
