"""A watch as text, one screen: the verdict, what each process held, what its figures hide.

Everything is computed from the suite, so that a file prints what was printed after measuring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from feedrate import units
from feedrate.analysis.checklist import checklist
from feedrate.analysis.leak_suite import grows, judge_leaks
from feedrate.analysis.memory_table import FIGURES, Amounts, ProcessRows, memory_table, totals
from feedrate.analysis.phases import epoch_items
from feedrate.analysis.watched import watched_run
from feedrate.memory_records import SOME_ITEMS, GrowthCause, MemoryWatch
from feedrate.records import Finding, Run, Suite
from feedrate.report.details import render_tracebacks
from feedrate.report.findings import render_findings
from feedrate.report.grid import Column, Grid, Row
from feedrate.report.hanging import Hanging
from feedrate.report.header import data_lines, host_line, software_line
from feedrate.report.series import NONE
from feedrate.report.words import count, items_word

_MIB = 2**20
_COUNTED = ("descriptors", "threads")
_NO_MEMORY = (
    "memory.fd_growth_main",
    "memory.fd_growth_worker",
    "memory.thread_growth_main",
    "memory.thread_growth_worker",
    "memory.workers_pile_up",
    "memory.programs_pile_up",
)
_HEADS = {
    "VMS": ("", "VMS", 1),
    "RSS": ("", "RSS", 2),
    "PSS": ("", "PSS", 8),
    "USS": ("", "USS", 7),
    "anonymous": ("anony-", "mous", 10),
    "private dirty": ("private", "dirty", 6),
    "shared dirty": ("shared", "dirty", 5),
    "file": ("file", "(PSS)", 3),
    "shmem": ("shmem", "(PSS)", 4),
    "descriptors": ("", "files", 9),
    "threads": ("", "threads", 0),
}
"""Each column's head, and its worth: those of least worth are left out first."""
_MARKS = {True: ("+ ", "green"), False: ("! ", "yellow"), None: ("· ", "dim")}
_CAUSES = 3
"""So many kinds of objects are told where nothing more is asked for."""


def leak_blocks(suite: Suite, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield what to print of a watch."""
    findings = suite.findings or judge_leaks(suite)
    decisive = _decisive(findings)
    watch, run = suite.watch, watched_run(suite)
    yield from _head(suite, watch, run, verbose=verbose)
    if watch is None or not watch.looks:
        return
    yield Text()
    yield from _verdict(findings, decisive, run)
    if watch.objects:
        yield from _causes(watch, verbose=verbose)
        yield from _not_walked(watch.causes)
    yield Text("\nMiB", style="dim")
    yield _table(watch, verbose=verbose)
    yield from _hidden(watch)
    yield Text()
    for each in checklist(suite):
        mark, style = _MARKS[each.is_good]
        yield Hanging(f"{mark}{each.question:30} ", each.answer, lead_style=style)
    rest = [finding for finding in findings if finding is not decisive or verbose]
    if rest:
        yield render_findings(rest, items=items_word(suite), verbose=verbose)
    if verbose:
        yield from render_tracebacks(suite)


def verdict_words(findings: Sequence[Finding]) -> str:
    """Return the answer in a few words: whether something grows."""
    leaks = [finding for finding in findings if grows(finding)]
    if leaks:
        return "Memory grows" if _is_of_memory(leaks[0]) else "It grows"
    if any(finding.code == "memory.undecided" for finding in findings):
        return "Not decided"
    return "No leak"


def _is_of_memory(finding: Finding) -> bool:
    return finding.code not in _NO_MEMORY


def _head(
    suite: Suite, watch: MemoryWatch | None, run: Run | None, *, verbose: bool
) -> Iterator[RenderableType]:
    yield Hanging(f"feedrate {suite.kind}  ", suite.metadata.target, lead_style="dim", style="bold")
    rows = [("host", host_line(suite.metadata))]
    if verbose:
        rows.append(("software", software_line(suite.metadata)))
    rows += [("data", line) for line in data_lines(suite)]
    if run is not None and run.facts is not None:
        rows.append(("loader", _loader(run, watch)))
    if watch is not None:
        rows.append(("watched", _watched(watch)))
    for name, text in rows:
        yield Hanging(f"{name:10}", text, lead_style="dim")


def _loader(run: Run, watch: MemoryWatch | None) -> str:
    use = next((each for each in run.loaders if each.number == run.training_loader), None)
    facts = use.facts if use is not None else run.facts
    assert facts is not None
    parts = []
    if use is not None and use.file is not None:
        parts.append(f"{use.file}:{use.line}")
    parts.append(count(facts.num_workers, "worker"))
    if facts.num_workers:
        method = watch.start_method if watch is not None else facts.start_method
        stay = "kept between epochs" if facts.persistent_workers else "new in each epoch"
        parts += [part for part in (method, stay) if part]
    if len(run.loaders) > 1:
        parts.append(f"one of {len(run.loaders)} loaders")
    return " · ".join(parts)


def _watched(watch: MemoryWatch) -> str:
    looks = count(len(watch.looks), "look")
    more = f" and {watch.rested_epochs:,} more without looks" if watch.rested_epochs else ""
    parts = [
        count(watch.complete_epochs, "whole epoch") + more,
        f"{looks} in {units.duration(watch.seconds)}",
    ]
    if watch.seconds > 0:
        parts.append(f"looking took {units.share(watch.spent_seconds / watch.seconds)} of the time")
    return " · ".join(parts)


def _decisive(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding that the verdict rests on: the worst leak, else why there is none."""
    leaks = (finding for finding in findings if grows(finding))
    others = (each for each in findings if each.code in ("memory.undecided", "memory.no_growth"))
    return next(leaks, next(others, None))


def _verdict(
    findings: Sequence[Finding], decisive: Finding | None, run: Run | None
) -> Iterator[RenderableType]:
    words = verdict_words(findings)
    if run is not None and run.error is not None and words == "No leak":
        # what could not go on has not shown that it could go on for ever
        yield Hanging("", f"Not decided: {run.error.sentence}", strong="Not decided")
        return
    if decisive is None:
        yield Hanging("", f"{words}.", strong=words)
        return
    # what is not decided begins with these words
    text = decisive.title if decisive.title.startswith(words) else f"{words}: {decisive.title}"
    yield Hanging("", text, strong=words)
    if decisive.remedy:
        yield Hanging("  → ", decisive.remedy, style="bold")


def _causes(watch: MemoryWatch, *, verbose: bool) -> Iterator[RenderableType]:
    by = "each epoch" if epoch_items(watch) else f"with each {SOME_ITEMS:,} items"
    for each in watch.objects if verbose else watch.objects[:_CAUSES]:
        what = each.type_name or "memory"
        place = f"{each.file}:{each.line}" if each.file is not None else "an unknown place"
        text = f"{each.process}: {what} made at {place}"
        if each.count > 0:
            text += f", {units.number(round(each.count))} more {by}"
        if each.bytes_per_epoch > 0:
            text += f" ({units.size(each.bytes_per_epoch)})"
        if each.held_by:
            text += f"; held by {' → '.join(each.held_by)}"
        yield Hanging("  · ", f"{text}.")


def _not_walked(causes: Sequence[GrowthCause]) -> Iterator[RenderableType]:
    """Say where there were too many objects to look at all of them."""
    for each in causes:
        if each.walked < 1:
            text = f"of the new objects in the {each.process} {units.share(each.walked)} were"
            yield Hanging("  · ", f"{text} looked at: there are too many for the time.")


def _table(watch: MemoryWatch, *, verbose: bool) -> Grid:
    columns = (
        Column(("", ""), left=True),
        Column(("", ""), left=True),
        *(Column((top, low), worth, name) for name, (top, low, worth) in _HEADS.items()),
    )
    rows = [row for each in memory_table(watch, every=verbose) for row in _rows(each)]
    return Grid(columns, tuple(rows), 2)


def _rows(each: ProcessRows) -> Iterator[Row]:
    for label, part in (("first", "first"), ("last", "last"), ("per epoch", "slope")):
        cells = [
            _cell(name, amounts, part) for name, amounts in zip(FIGURES, each.amounts, strict=True)
        ]
        name = each.name if part == "first" else ""
        yield Row((name, label, *cells), style="bold" if part == "slope" else "")


def _cell(name: str, amounts: Amounts, part: str) -> str:
    value = getattr(amounts, part)
    if value is None:
        return NONE
    if name in _COUNTED:
        return _signed(value, 1) if part == "slope" else units.number(round(value, 1))
    return _signed(value / _MIB, 3) if part == "slope" else f"{value / _MIB:,.1f}"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+,.{digits}f}"
    return "0" if not text.strip("+-0.") else text.replace("-", "−")


def _hidden(watch: MemoryWatch) -> Iterator[RenderableType]:
    """Say what RSS and VMS count that nobody has taken."""
    found = totals(watch)
    if found.pss is None:
        return
    over = count(found.processes, "process", "processes")
    takes = "takes" if found.processes == 1 else "take"
    text = f"{over} {takes} {units.size(found.pss)} (PSS)"
    if found.rss > found.pss and found.processes > 1:
        text += f"; RSS, which counts what they share in each, adds up to {units.size(found.rss)}"
    if found.virtual is not None:
        text += f"; VMS, {units.size(found.virtual)}, are addresses and no memory"
    yield Hanging("", f"{text}.", style="dim")
