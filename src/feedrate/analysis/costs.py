"""What whole epochs cost: totals over several epochs, and when a dearer start is paid back."""

from __future__ import annotations

import math

import msgspec

from feedrate.analysis.runs import EpochTimes, epoch_times
from feedrate.analysis.stats import Summary, summary
from feedrate.analysis.summary import Point


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of whole epochs of one benchmark, one value for each run, set-up not counted.

    ``repeats`` names the repeat of each value. ``later`` is ``None`` where only one epoch was
    measured. See `EpochTimes` for ``extrapolated``.
    """

    repeats: tuple[int, ...]
    cold: Summary
    later: Summary | None
    extrapolated: bool


def costs(point: Point) -> Costs | None:
    """Return the costs of the runs that have as many epochs as the point speaks of."""
    rows: list[tuple[int, EpochTimes]] = []
    for run in point.runs:
        row = epoch_times(run)
        if row is not None and (row.later is not None or point.kind == "cold_only"):
            rows.append((run.repeat, row))
    cold = summary([row.cold for _, row in rows])
    if cold is None:
        return None
    return Costs(
        repeats=tuple(repeat for repeat, _ in rows),
        cold=cold,
        later=summary([row.later for _, row in rows if row.later is not None]),
        extrapolated=any(row.extrapolated for _, row in rows),
    )


def total(cost: Costs, epochs: int) -> Summary | None:
    """Return the seconds that ``epochs`` epochs take; ``None`` where later ones are not known."""
    if epochs == 1:
        return cost.cold
    if cost.later is None:
        return None
    pairs = zip(cost.cold.values, cost.later.values, strict=True)
    return summary([cold + (epochs - 1) * later for cold, later in pairs])


def paid_back_from(dear: Costs, cheap: Costs) -> int | None:
    """Return the first epoch, from 1, by whose end ``dear`` has taken no more time than ``cheap``.

    By the medians: the smallest k with cold + (k − 1) · later of ``dear`` at or below that of
    ``cheap``. ``None`` where that never comes, or later epochs were not measured.
    """
    ahead = cheap.cold.median - dear.cold.median
    if ahead >= 0:
        return 1
    if dear.later is None or cheap.later is None:
        return None
    gain = cheap.later.median - dear.later.median
    return 1 + math.ceil(-ahead / gain) if gain > 0 else None
