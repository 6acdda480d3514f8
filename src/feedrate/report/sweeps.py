"""A benchmark as text: for each condition its tables and answer, then the findings."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from feedrate.analysis.conditions import Condition, by_loader, conditions
from feedrate.analysis.verdicts import judge
from feedrate.records import Suite
from feedrate.report.answer import chosen_in, render_answer
from feedrate.report.details import render_runs, render_tracebacks
from feedrate.report.findings import render_findings
from feedrate.report.hanging import Hanging
from feedrate.report.header import render_header
from feedrate.report.notes import notes_of
from feedrate.report.series import Group, parts_of
from feedrate.report.table import render_table
from feedrate.report.words import items_word, part_words


def sweep_blocks(suite: Suite, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield what is printed of a benchmark.

    ``verbose`` adds the values of every run, the evidence of the findings and whole tracebacks.
    """
    yield render_header(suite)
    for condition in conditions(suite):
        yield from _condition(condition, items=items_word(suite), verbose=verbose)
    findings = suite.findings or judge(suite)
    if findings:
        yield render_findings(findings, items=items_word(suite), verbose=verbose)
    if verbose:
        yield from render_tracebacks(suite)


def _condition(condition: Condition, *, items: str, verbose: bool) -> Iterator[RenderableType]:
    groups = parts_of(condition.points)
    loaders = by_loader(condition)
    chosen = tuple(benchmark for loader in loaders for benchmark in chosen_in(loader))
    for group in groups:
        yield Text()
        yield Text.assemble((_heading(group), "bold"), (f"  {_runs(group)}", "dim"))
        yield render_table(group, items=items, chosen=chosen)
        if verbose:
            yield Text("\neach run", style="dim")
            yield render_runs(group)
    for loader in loaders:
        answer = render_answer(loader, items=items)
        if answer is not None:
            yield Text()
            yield answer
    for note in notes_of(groups):
        yield Hanging("  ", note, style="dim")


def _heading(group: Group) -> str:
    title = " · ".join(name for name in (group.condition, part_words(group.part)) if name)
    return title[:1].upper() + title[1:] if not group.condition else title


def _runs(group: Group) -> str:
    runs = sorted({point.rates.n for point in group.points if point.rates is not None})
    if not runs:
        return "nothing could be measured"
    if runs[-1] == 1:
        return "one run each"
    fewest = f"{runs[0]} to " if len(runs) > 1 else ""
    return f"median of {fewest}{runs[-1]} runs"
