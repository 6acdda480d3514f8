"""A suite as text: where it was measured, the tables, the answer, the findings.

Everything is computed from the suite, so that a file prints what was printed after measuring.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType

from feedrate.records import Suite
from feedrate.report.portable import Portable


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
    # each kind's report is loaded where it is printed: those that judge measurements need SciPy,
    # which takes longer to load than doctor and explain take to answer
    if suite.kind == "tune":
        from feedrate.report.tuning import tune_blocks

        return tune_blocks(suite, verbose=verbose)
    if suite.kind == "leaks":
        from feedrate.report.leaks import leak_blocks

        return leak_blocks(suite, verbose=verbose)
    if suite.kind == "explain":
        from feedrate.report.explanations import explanation_blocks

        return explanation_blocks(suite, verbose=verbose)
    if suite.kind == "doctor":
        from feedrate.report.doctoring import doctor_blocks

        return doctor_blocks(suite, verbose=verbose)
    from feedrate.report.sweeps import sweep_blocks

    return sweep_blocks(suite, verbose=verbose)
