"""Whose loader was measured: torch's, to hold against the published figures, and feedrate's."""

from __future__ import annotations

from collections.abc import Iterator

from tables import table

from feedrate import units
from feedrate.analysis.conditions import Condition, by_loader, conditions
from feedrate.analysis.cpu_limit import near_limit
from feedrate.analysis.loaders import compare_loaders, pairs_of
from feedrate.analysis.stats import Summary
from feedrate.records import Suite

NONE = "–"


def torchs(suite: Suite) -> tuple[Condition, ...]:
    """Return the conditions with what torch's loader did in them, and nothing else."""
    return tuple(
        part
        for condition in conditions(suite)
        for part in by_loader(condition)
        if part.loader in ("", "torch")
    )


def beside(suite: Suite) -> str:
    """Return the section with feedrate's loader beside torch's; "" where it was not measured."""
    parts = [text for condition in conditions(suite) for text in _of_condition(condition)]
    if not parts:
        return ""
    made = suite.metadata
    about = (
        f"Both in turns, in one run: {made.started_at}, {made.cpu}, "
        f"{units.number(made.usable_cpus)} usable CPUs, torch {made.torch_version}, feedrate "
        f"{made.feedrate_version}."
    )
    return "\n\n".join(["## The same with feedrate's loader", about, *parts])


def _of_condition(condition: Condition) -> Iterator[str]:
    pairs = pairs_of(condition.points)
    if not pairs:
        return
    rows = [
        (
            str(pair.workers),
            _spread(pair.torchs.rates),
            _spread(pair.ours.rates),
            units.ratio(pair.gain.value),
            f"{units.ratio(min(pair.each))}–{units.ratio(max(pair.each))}"
            if len(pair.each) > 1
            else NONE,
        )
        for pair in pairs
    ]
    head = ("workers", "torch's", "feedrate's", "feedrate's over torch's", "pair by pair")
    yield f"{condition.name.capitalize()}, images/s of warm epochs:"
    yield table(head, rows)
    titles = [("", compare_loaders(condition))]
    titles += [(f"{part.loader}: ", near_limit(part)) for part in by_loader(condition)]
    said = [f"- {name}{found.title}" for name, found in titles if found is not None]
    yield "\n".join(said).replace("items/s", "images/s")


def _spread(values: Summary | None) -> str:
    if values is None:
        return NONE
    if values.n == 1:
        return units.rate(values.median)
    low, high = units.rate(values.low), units.rate(values.high)
    return f"{units.rate(values.median)} ({low}–{high})"
