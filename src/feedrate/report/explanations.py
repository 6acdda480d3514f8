"""Explained errors as text: four lines a cause."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from feedrate.records import Finding, Suite
from feedrate.report.findings import evidence_words
from feedrate.report.hanging import Hanging

_MARKS = {"error": ("!!", "bold red"), "warning": ("!", "yellow"), "info": ("·", "dim")}


def explanation_blocks(suite: Suite, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield what is printed of an explained log: of each cause what, why, remedy and figures.

    ``verbose`` adds the log's own line and the single figures.
    """
    yield Hanging("feedrate explain  ", suite.metadata.target, lead_style="dim", style="bold")
    for finding in suite.findings:
        yield Text()
        yield from explained(finding, verbose=verbose)
    if any(finding.machine for finding in suite.findings):
        yield Text()
        yield Hanging(
            "",
            "Figures are this machine's, now. For a log of another machine, run explain there.",
            style="dim",
        )


def explained(finding: Finding, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield the lines of one cause: what happened, why, the remedies, what the figures say."""
    mark, style = _MARKS[finding.severity]
    yield Hanging(
        f" {mark:2} ",
        f"{finding.title} [{finding.code}]",
        lead_style=style,
        strong=finding.title,
    )
    for name, text in (
        ("why", finding.why),
        ("do", finding.remedy),
        ("here", finding.machine),
        ("log", finding.quote if verbose else ""),
        ("data", "; ".join(map(evidence_words, finding.evidence)) if verbose else ""),
    ):
        if text:
            yield Hanging(f"    {name:5} ", text, lead_style="dim")
