"""Signs in a tune's windows that a setting could matter, or that none can."""

from __future__ import annotations

from feedrate.analysis.tuned import Tuned
from feedrate.analysis.windows import Stretch

WAITS = 0.1
"""A loop that waits a smaller share of its time has little to gain from what limits the loader."""
UNEVEN = 0.5
"""The coefficient of variation of fetch times above which a slow batch holds others back."""
IDLE_CPUS = 0.7
"""The share of the CPUs below which they are not what is full."""


def fetches_vary(stretch: Stretch) -> bool:
    """Say whether a slow batch can hold others back that are finished."""
    return (
        stretch.level > 1
        and stretch.fetch_variation is not None
        and stretch.fetch_variation >= UNEVEN
    )


def cpus_full(tuned: Tuned) -> bool:
    """Say whether the CPUs are full at the lowest level already, as a quota makes them.

    What a worker does not compute there is time in which it was not let run, and no storage's.
    """
    first = next((each for each in tuned.levels if each.level > 0), None)
    if first is None or first.cpu is None:
        return False
    return first.batch_rate * first.cpu > IDLE_CPUS * tuned.roof.cpus
