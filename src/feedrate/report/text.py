"""A suite as text: where it was measured, the tables, the answer, the findings.

Everything is computed from the suite, so that a file prints what was printed after measuring.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from feedrate.analysis.conditions import Condition, by_loader, conditions
from feedrate.analysis.verdicts import judge
from feedrate.records import Suite
from feedrate.report.answer import chosen_in, render_answer
from feedrate.report.details import render_runs, render_tracebacks
from feedrate.report.doctoring import doctor_blocks
from feedrate.report.explanations import explanation_blocks
from feedrate.report.findings import render_findings
from feedrate.report.hanging import Hanging
from feedrate.report.header import render_header
from feedrate.report.notes import notes_of
from feedrate.report.portable import Portable
from feedrate.report.series import Group as Points
from feedrate.report.series import parts_of
from feedrate.report.table import render_table
from feedrate.report.tuning import tune_blocks
from feedrate.report.words import items_word, part_words


def render_suite(suite: Suite, *, verbose: bool = False) -> RenderableType:
    """Return what to print of a suite, for the width of the console that prints it.

    ``verbose`` adds the values of every run, the evidence of the findings and whole tracebacks.
    """
    return Portable(Group(*_blocks(suite, verbose=verbose)))


def print_suite(console: Console, suite: Suite, *, verbose: bool = False) -> None:
    """Print a suite."""
    # highlighting would colour figures by their look; here colour means something
    console.print(render_suite(suite, verbose=verbose), highlight=False)


def suite_text(suite: Suite, *, width: int = 100, verbose: bool = False) -> str:
    """Return a suite as plain text, without colour codes."""
    lines = io.StringIO()
    console = Console(file=lines, width=width, color_system=None, force_terminal=False)
    print_suite(console, suite, verbose=verbose)
    return lines.getvalue()


def _blocks(suite: Suite, *, verbose: bool) -> Iterator[RenderableType]:
    if suite.kind == "tune":
        yield from tune_blocks(suite, verbose=verbose)
        return
    if suite.kind == "explain":
        yield from explanation_blocks(suite, verbose=verbose)
        return
    if suite.kind == "doctor":
        yield from doctor_blocks(suite, verbose=verbose)
        return
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


def _heading(group: Points) -> str:
    title = " · ".join(name for name in (group.condition, part_words(group.part)) if name)
    return title[:1].upper() + title[1:] if not group.condition else title


def _runs(group: Points) -> str:
    runs = sorted({point.rates.n for point in group.points if point.rates is not None})
    if not runs:
        return "nothing could be measured"
    if runs[-1] == 1:
        return "one run each"
    fewest = f"{runs[0]} to " if len(runs) > 1 else ""
    return f"median of {fewest}{runs[-1]} runs"
