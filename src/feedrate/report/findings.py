"""Findings as text: what matters most first, each with its remedy, its evidence where asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from feedrate import units
from feedrate.records import Evidence, Finding
from feedrate.report.hanging import Hanging

_ORDER = ("error", "warning", "info")
_MARKS = {"error": ("!!", "bold red"), "warning": ("!", "yellow"), "info": ("·", "dim")}
# The remedy of these is to look closely, which verbose output does already.
_LOOKED_AT_CLOSELY = ("sweep.failed",)
_WRITERS: dict[str, Callable[[float], str]] = {
    "s": units.seconds,
    "bytes": units.size,
    "share": units.share,
    "ratio": units.ratio,
}


def render_findings(
    findings: Sequence[Finding], *, items: str = "items", verbose: bool = False
) -> RenderableType:
    """Return the findings: the suite's own first, then condition by condition, warnings first.

    Within a condition, what is said of each loader follows what is said of all. ``items`` is the
    word for what is counted, as in the tables.
    """
    blocks: list[RenderableType] = []
    conditions = list(dict.fromkeys(finding.condition for finding in findings))
    places = dict.fromkeys((finding.condition, finding.loader) for finding in findings)
    for place in sorted(places, key=lambda p: (p[0] != "", conditions.index(p[0]), p[1] != "")):
        members = [f for f in findings if (f.condition, f.loader) == place]
        condition, loader = place
        names = [name for name in (condition, f"{loader}'s loader" if loader else "") if name]
        title = f"Findings: {', '.join(names)}" if names else "Findings"
        blocks += [Text(), Text(title, style="bold"), *_block(members, items, verbose=verbose)]
    return Group(*blocks)


def evidence_words(evidence: Evidence) -> str:
    """Return one figure in words: "start-up with 4 workers 190 ms (180 ms to 210 ms)"."""
    text = f"{evidence.name} {quantity(evidence.value, evidence.unit)}"
    if evidence.low is None or evidence.high is None:
        return text
    low, high = quantity(evidence.low, evidence.unit), quantity(evidence.high, evidence.unit)
    return text if low == high else f"{text} ({low} to {high})"


def quantity(value: float, unit: str) -> str:
    """Return a value in the unit of the records, as people read it; it may be negative.

    Raises:
        ValueError: the value is infinite or not a number.
    """
    sign = "−" if value < 0 else ""
    writer = _WRITERS.get(unit)
    if writer is not None:
        return sign + writer(abs(value))
    return f"{sign}{units.number(abs(value))} {unit}".rstrip()


def _block(findings: Sequence[Finding], items: str, *, verbose: bool) -> Iterator[RenderableType]:
    said: set[str] = set()
    for finding in sorted(findings, key=lambda finding: _ORDER.index(finding.severity)):
        mark, style = _MARKS[finding.severity]
        title = finding.title.replace("items/s", f"{items}/s")
        yield Hanging(f" {mark:2} ", title, lead_style=style)
        if verbose and finding.evidence:
            yield Hanging(" " * 4, "; ".join(map(evidence_words, finding.evidence)), style="dim")
        # several findings may want the same, most often more runs: said once it is enough
        shown = verbose and finding.code in _LOOKED_AT_CLOSELY
        if finding.remedy and finding.remedy not in said and not shown:
            said.add(finding.remedy)
            yield Hanging("    → ", finding.remedy, style="bold")
