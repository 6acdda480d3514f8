"""What has to be said below a table so that its figures are read rightly."""

from __future__ import annotations

from collections.abc import Sequence

from feedrate import units
from feedrate.analysis.summary import Point
from feedrate.report.series import Group
from feedrate.report.table import RESTARTED
from feedrate.report.words import count, facts_of, listed


def notes_of(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return the footnotes of a condition's tables, in the order of their marks."""
    points = [point for group in groups for point in group.points]
    rated = [point for point in points if point.rates is not None]
    notes = []
    if any(point.kind == "restarted" for point in rated):
        notes.append(
            f"{RESTARTED} persistent_workers is off: workers are started again for each epoch, "
            "and later epochs contain that."
        )
    cold = [point for point in rated if point.kind == "cold_only"]
    if cold and len(cold) == len(rated):
        notes.append("No warm epoch was measured: rate and wait are of the cold one.")
    elif cold:
        counts = [str(n) for n in sorted({point.workers for point in cold})]
        notes.append(f"No warm epoch was measured with {listed(counts)} workers.")
    return (*notes, *_left_out(points), *_cut(rated))


def _left_out(points: Sequence[Point]) -> list[str]:
    where: dict[str, list[int]] = {}
    for point in points:
        facts = facts_of(point.benchmark)
        texts = (*point.benchmark.left_out, *(facts.left_out if facts is not None else ()))
        for text in dict.fromkeys(texts):
            counts = where.setdefault(text, [])
            if point.workers not in counts:
                counts.append(point.workers)
    return [
        f"Left out with {listed([str(n) for n in sorted(counts)])} "
        f"{'worker' if counts == [1] else 'workers'}: {text.rstrip('.')}."
        for text, counts in where.items()
    ]


def _cut(points: Sequence[Point]) -> list[str]:
    epochs = [
        (epoch.batches, facts.length if (facts := facts_of(point.benchmark)) else None)
        for point in points
        for run in point.runs
        for epoch in run.epochs
        if not epoch.complete
    ]
    notes = []
    for batches, length in dict.fromkeys(epochs):
        whole = f" of {units.number(length)}" if length is not None else ""
        notes.append(f"Epochs were cut after {count(batches, 'batch', 'batches')}{whole}.")
    return notes
