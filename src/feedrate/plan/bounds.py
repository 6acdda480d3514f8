"""What a procedure may ask for: bounds beyond which nobody can mean it."""

from __future__ import annotations

import math

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
        if value is not None and not 1 <= value <= most:
            raise UsageError(f"{name} must be 1 to {most}, not {value}")
    timeout = procedure.timeout_seconds
    if not 0 < timeout < math.inf:
        raise UsageError(f"timeout must be a number of seconds above 0, not {timeout:g}")
    step = procedure.step_seconds
    if step is not None and not 0 <= step < timeout:
        raise UsageError(
            f"step_ms must be 0 or more and less than the timeout ({timeout:g} s), "
            f"not {step * 1000:g}"
        )
    if not 0 <= procedure.tolerance <= 0.5:
        raise UsageError(f"tolerance must be 0 to 0.5, not {procedure.tolerance:g}")
    if seed is not None and seed not in SEEDS:
        raise UsageError(f"seed must be -2**63 to 2**64 - 1, as torch has it, not {seed}")


def check_seconds(name: str, value: float) -> None:
    """Return if a stretch of time can be meant.

    Raises:
        UsageError: it is shorter than a second, or has no end.
    """
    if not 1 <= value < math.inf:
        raise UsageError(f"{name} must be a number of seconds of 1 or more, not {value:g}")


def check_least(least: int, **counts: int | None) -> None:
    """Return if none of the counts that are given is below ``least``.

    Raises:
        UsageError: it names the first that is.
    """
    for name, value in counts.items():
        if value is not None and value < least:
            raise UsageError(f"{name} must be {least} or more, not {value}")
