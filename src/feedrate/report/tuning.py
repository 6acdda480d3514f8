"""A tune as text, one screen: the loop as it is, the curve with its roofline, what to write.

Everything is computed from the suite, so that a file prints what was printed after measuring.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePath

from rich.console import RenderableType
from rich.text import Text

from feedrate import units
from feedrate.analysis import beside
from feedrate.analysis.answering import Answer, answer
from feedrate.analysis.candidates import chosen_level
from feedrate.analysis.race import Entry
from feedrate.analysis.reasons import line
from feedrate.analysis.rounds import rounds
from feedrate.analysis.tuned import Tuned, read
from feedrate.analysis.tuning import LEAST_GAIN, judge, recommend
from feedrate.analysis.windows import Part, Stretch, percentile
from feedrate.records import LoaderFacts, Peaks, Recommendation, Suite
from feedrate.report.details import render_tracebacks
from feedrate.report.findings import quantity, render_findings
from feedrate.report.grid import Column, Grid, Row
from feedrate.report.hanging import Hanging
from feedrate.report.header import host_line, software_line
from feedrate.report.series import NONE
from feedrate.report.table import CHOSEN
from feedrate.report.words import count, items_word

_HELP = {
    "cpus": "cheaper items or more CPUs would help",
    "loop": "a faster step would help",
    "workers": "a batch in less time would help: faster storage or cheaper items",
}
_OVER = 1.1
"""How far beyond its budget a tune may take before that is said."""
_BOUNDS = {"workers": "workers", "cpus": "CPUs", "loop": "the loop"}


def tune_blocks(suite: Suite, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield what to print of a tune."""
    tuned, items = read(suite), items_word(suite)
    found = answer(tuned)
    advised = suite.recommendation or recommend(suite)
    yield from _head(suite, tuned, verbose=verbose)
    if tuned.look is not None:
        yield Text()
        yield from _loop(tuned, items)
    if tuned.levels:
        yield Text()
        yield _curve(tuned, advised, items)
    if advised is not None:
        yield Text()
        yield from _advice(found, advised)
    yield from _rest(tuned, found)
    findings = suite.findings or judge(suite)
    if findings:
        yield render_findings(findings, items=items, verbose=verbose)
    if verbose:
        yield from _choices(tuned)
        yield from render_tracebacks(suite)


def _head(suite: Suite, tuned: Tuned, *, verbose: bool) -> Iterator[RenderableType]:
    yield Hanging(f"feedrate {suite.kind}  ", suite.metadata.target, lead_style="dim", style="bold")
    rows = [("host", host_line(suite.metadata))]
    if verbose:
        rows.append(("software", software_line(suite.metadata)))
    if tuned.use is not None:
        rows.append(("loader", _loader(tuned)))
    rows.append(("measured", _measured(tuned)))
    for name, text in rows:
        yield Hanging(f"{name:10}", text, lead_style="dim")


def _loader(tuned: Tuned) -> str:
    use, own = tuned.use, tuned.own
    assert use is not None
    assert own is not None
    where = "made outside of your code"
    if use.file is not None:
        where = f"{PurePath(use.file).name}:{use.line}"
    parts = [f"{where}, {_data(use.facts)}", line(own)]
    if len(tuned.loaders) > 1:
        how = "its batches are followed by optimizer steps" if use.optimizer_steps else "most used"
        parts.append(f"one of {len(tuned.loaders)} loaders: {how}")
    return " · ".join(parts)


def _data(facts: LoaderFacts) -> str:
    dataset = facts.dataset_type.rpartition(".")[2]
    if facts.batch_size:
        return f"{dataset} in batches of {units.number(facts.batch_size)}"
    return f"{dataset} in own batches"


def _measured(tuned: Tuned) -> str:
    parts = [count(len(tuned.every_run), "run")]
    parts += [raced] if (raced := rounds(tuned)) else []
    budget = tuned.procedure.budget_seconds
    spent = units.duration(tuned.spent)
    if budget and tuned.spent > _OVER * budget:
        spent += f", beyond the budget of {units.duration(budget)}: it takes so long at least"
    elif budget:
        spent += f" of {units.duration(budget)}"
    parts.append(spent)
    if tuned.earlier:
        parts.append("the levels are from an earlier tune")
    return " · ".join(parts)


def _loop(tuned: Tuned, items: str) -> Iterator[RenderableType]:
    look = tuned.look
    assert look is not None
    parts = [f"{units.rate(look.rate)} {items}/s", f"waits {units.share(look.wait_share)}"]
    parts += [_timed(tuned, "wait", look.wait), _timed(tuned, "step", look.step)]
    yield Hanging("your loop  ", " · ".join(parts), lead_style="dim")
    gain = tuned.most_gain
    if tuned.cached is not None and gain is not None:
        most = f"at most {units.ratio(1 + gain)}" if gain >= LEAST_GAIN else "nothing to gain"
        if tuned.cached.rate < (1 + gain - tuned.procedure.tolerance) * look.rate:
            most += f", by the {units.share(look.wait_share)} of its time that it waits"
        text = f"{units.rate(tuned.cached.rate)} {items}/s when the loader costs nothing: {most}"
        yield Hanging("ceiling    ", text, lead_style="dim")


def _timed(tuned: Tuned, part: Part, mean: float) -> str:
    """Return the median and the 99th percentile, the mean where batches were not timed."""
    middle = percentile(tuned.look_windows, part, 50)
    high = percentile(tuned.look_windows, part, 99)
    if middle is None or high is None:
        return f"{part} {units.seconds(mean)} a batch"
    return f"{part} {units.seconds(middle)} (p99 {units.seconds(high)})"


def _curve(tuned: Tuned, advised: Recommendation | None, items: str) -> Grid:
    columns = (
        Column(("", "")),
        Column(("", "workers")),
        Column(("measured", f"{items}/s")),
        Column(("roofline", f"{items}/s"), 3, "roofline"),
        Column(("", "bound by"), 2, "bound by", left=True),
        Column(("", "wait"), 4, "wait"),
        Column(("fetch", "a batch"), 1, "fetch"),
        Column(("", ""), 0, "whose", left=True),
    )
    stretches = list(tuned.levels)
    if tuned.look is not None and tuned.look.level == 0:
        stretches.insert(0, tuned.look)
    chosen = chosen_level(tuned)
    mark = advised.settings.num_workers if advised is not None else None
    if advised is None and chosen is not None and not tuned.race:
        mark = chosen.level
    own = tuned.own.num_workers if tuned.own is not None else None
    rows = tuple(_row(tuned, each, mark, own) for each in stretches)
    return Grid(columns, rows, 2)


def _row(tuned: Tuned, each: Stretch, mark: int | None, own: int | None) -> Row:
    top = tuned.roof.at(each.level) * (tuned.look or each).items_a_batch
    bound = tuned.roof.binding(each.level)
    fetch = each.fetch if each.fetch is not None or each.level else each.wait
    cells = (
        CHOSEN if each.level == mark else " ",
        str(each.level),
        units.rate(each.rate),
        units.rate(top) if math.isfinite(top) else NONE,
        _BOUNDS[bound] if bound is not None else "",
        units.share(each.wait_share),
        units.seconds(fetch) if fetch is not None else NONE,
        "yours" if each.level == own else "",
    )
    return Row(cells, style="bold" if each.level == mark else "")


def _advice(found: Answer, advised: Recommendation) -> Iterator[RenderableType]:
    ratio = advised.ratio
    head = advised.line
    text = head = " with ".join((head, *advised.statements))
    if ratio is not None:
        text += f"  {quantity(ratio.value, ratio.unit)} your rate"
        if ratio.low is not None and ratio.high is not None:
            text += f" ({units.ratio(ratio.low)} to {units.ratio(ratio.high)})"
        text += f", {count(advised.confirmations, 'run')} of each"
    yield Hanging(f"{CHOSEN} ", text, lead_style="bold", strong=head)
    for reason in advised.reasons:
        yield Hanging("  · ", reason)
    if found.duel is not None:
        yield from _rates(found)
        memory = _memory(found.duel.own, found.duel.winner)
        if memory:
            yield Hanging("  · ", memory)
    place = ""
    if advised.file is not None:
        place = f"   in {advised.file}, line {advised.line_number}"
    for each in advised.statements:
        place += f"; and {each} before the loop"
    yield Hanging("  write  ", f"DataLoader(…, {advised.line}){place}", lead_style="dim")


def _rates(found: Answer) -> Iterator[RenderableType]:
    against = found.duel
    assert against is not None
    parts = []
    for entry, name in ((against.own, "your settings"), (against.winner, "these")):
        values = sorted(entry.rates.values())
        text = f"{name} {units.rate(entry.rate)}"
        if len(values) > 1:
            text += f" ({units.rate(values[0])}–{units.rate(values[-1])})"
        parts.append(text)
    yield Hanging("  · ", f"Confirmed on torch's own DataLoader, items/s: {', '.join(parts)}.")


def _memory(own: Entry, other: Entry) -> str:
    before, after = _highest_peak(own), _highest_peak(other)
    if before is None or after is None:
        return ""
    shm = f", /dev/shm {units.size(after.shm_bytes)} fuller" if after.shm_bytes else ""
    return (
        f"Memory at the peak: {units.size(after.total_bytes)}{shm}; "
        f"{units.size(before.total_bytes)} with your settings."
    )


def _highest_peak(entry: Entry) -> Peaks | None:
    peaks = [run.peaks for run in entry.benchmark.runs if run.peaks is not None]
    return max(peaks, key=lambda each: each.total_bytes, default=None)


def _next_limit(tuned: Tuned, found: Answer) -> str:
    """Say what bounds the loop from here on, beyond what settings can change."""
    best = chosen_level(tuned)
    level = best.level if best is not None else 0
    if found.duel is not None:
        advised = found.kind in ("gain", "cheaper")
        level = (found.duel.winner if advised else found.duel.own).settings.num_workers
    bound = tuned.roof.binding(level)
    if bound is None or found.kind in ("nothing", "too_short", "step_bound"):
        return ""
    if tuned.surpasses(tuned.roof.at(level)):
        return ""
    return f"{tuned.roof.words(bound, level)}; {_HELP[bound]}."


def _others(tuned: Tuned, found: Answer) -> Iterator[str]:
    """Yield what was raced and is not recommended, with what it gained."""
    own = tuned.own_entry
    won = found.duel.winner.settings if found.duel is not None else None
    for each in tuned.race:
        if each.own or own is None or each.settings == won or each.benchmark.skipped:
            continue
        if each.error is not None:
            yield f"{each.benchmark.label} failed"
        elif each.differs:
            yield f"{each.benchmark.label} delivers other items"
        elif each.rates and own.rate > 0:
            both = each.rates.keys() & own.rates.keys()
            rate = units.ratio(each.rate / own.rate)
            yield f"{each.benchmark.label} {rate} your rate ({count(len(both), 'run')})"
    other = beside.compared(tuned)
    if other is not None and not beside.gives_more(tuned, other):
        rate = units.ratio(other.ratio.value)
        runs = count(other.rounds, "run")
        unsure = "" if other.ratio.value < 1 + tuned.procedure.tolerance else ": not sure"
        yield f"feedrate.DataLoader {rate} the rate of torch's ({runs}{unsure})"


def _rest(tuned: Tuned, found: Answer) -> Iterator[RenderableType]:
    """Yield what was tried in vain, and what would help beyond settings."""
    others, limit = list(_others(tuned, found)), _next_limit(tuned, found)
    if others or limit:
        yield Text()
    if others:
        yield Hanging("not worth it  ", "; ".join(others) + ".", lead_style="dim")
    if limit:
        yield Hanging("next limit    ", limit, lead_style="dim")


def _choices(tuned: Tuned) -> Iterator[RenderableType]:
    if not tuned.choices:
        return
    yield Text("\nsearch", style="dim")
    for choice in tuned.choices:
        prefetch = f", prefetch_factor {choice.prefetch}" if choice.prefetch is not None else ""
        yield Hanging("  ", f"{count(choice.level, 'worker')}{prefetch}: {choice.reason}")


def loader_place(suite: Suite) -> str | None:
    """Return the file in which the training loader is made, for the command that changes it."""
    tuned = read(suite)
    return tuned.use.file if tuned.use is not None else None
