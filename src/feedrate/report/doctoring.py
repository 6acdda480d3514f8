"""What doctor found as text: what needs to be done first, and what was looked at and is fine."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from feedrate.records import Finding, LookedAt, Suite
from feedrate.report.findings import evidence_words
from feedrate.report.hanging import Hanging
from feedrate.report.header import host_line, software_line
from feedrate.report.words import count

_ORDER = ("error", "warning", "info")
_MARKS = {"error": ("!!", "bold red"), "warning": ("!", "yellow"), "info": ("·", "dim")}


def doctor_blocks(suite: Suite, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield what is printed of a doctor's look: the host, the findings, and what is fine.

    ``verbose`` has each thing that is fine on a line of its own, instead of their number.
    """
    yield Hanging("feedrate doctor  ", suite.metadata.target, lead_style="dim", style="bold")
    yield Hanging("host      ", host_line(suite.metadata), lead_style="dim")
    yield Hanging("software  ", software_line(suite.metadata), lead_style="dim")
    for finding in sorted(suite.findings, key=lambda found: _ORDER.index(found.severity)):
        yield Text()
        yield from _finding(finding)
    yield Text()
    if verbose:
        yield from _looked_at(suite.looked_at)
    yield Hanging("", _summary(suite, verbose=verbose), style="dim")


def _finding(finding: Finding) -> Iterator[RenderableType]:
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
        ("data", "; ".join(map(evidence_words, finding.evidence))),
    ):
        if text:
            yield Hanging(f"    {name:5} ", text, lead_style="dim")


def _looked_at(fine: tuple[LookedAt, ...]) -> Iterator[RenderableType]:
    if not fine:
        return
    yield Text("Looked at, and fine", style="bold")
    width = max(len(looked.name) for looked in fine)
    for looked in fine:
        yield Hanging(f"    {looked.name:{width}}  ", looked.seen, lead_style="dim")
    yield Text()


def _summary(suite: Suite, *, verbose: bool) -> str:
    serious = sum(finding.severity != "info" for finding in suite.findings)
    said = f"{count(serious, 'thing')} to do." if serious else "Nothing needs to be done."
    if suite.looked_at and not verbose:
        said += f" {count(len(suite.looked_at), 'more check')} found nothing: --all shows them."
    return said
