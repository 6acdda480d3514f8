"""What only those who look closely want: every run's values, and whole tracebacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType
from rich.text import Text

from feedrate import units
from feedrate.analysis import runs as of
from feedrate.analysis.summary import Point
from feedrate.records import Run, Suite
from feedrate.report.grid import Column, Grid, Row
from feedrate.report.series import NONE, Group

_HEADS = (
    ("", "workers"),
    ("", "run"),
    ("cold", "epoch"),
    ("later", "epoch"),
    ("items/s", "cold"),
    ("items/s", "later"),
    ("", "step"),
    ("CPU a", "batch"),
    ("memory", "main"),
    ("memory", "workers"),
    ("descrip-", "tors"),
    ("CPU of", "others"),
)
"""CPU of others: CPU seconds that processes outside the run took while it lasted."""


def render_runs(group: Group) -> Grid:
    """Return a table with one row for each run of the group, in the order of its table."""
    settings = tuple(Column(setting.head) for setting in group.varying)
    columns = (Column(_HEADS[0]), *settings, *(_column(n) for n in range(1, len(_HEADS))))
    rows = tuple(
        Row(
            (
                str(point.workers),
                *(s.of(point.benchmark) for s in group.varying),
                *_cells(point, run),
            )
        )
        for point in group.points
        for run in point.benchmark.runs
        if run.epochs
    )
    return Grid(columns, rows, len(columns))


def render_tracebacks(suite: Suite) -> Iterator[RenderableType]:
    """Yield the whole traceback of each failed run; the same one is shown once."""
    shown: set[str] = set()
    for benchmark in suite.benchmarks:
        for run in benchmark.runs:
            error = run.error
            if error is None or not error.traceback or error.traceback in shown:
                continue
            shown.add(error.traceback)
            where = benchmark.label
            if benchmark.condition not in where:
                where = f"{benchmark.condition}, {where}"
            yield Text()
            yield Text(f"{where}, run {run.repeat + 1}: {error.sentence}", style="bold")
            yield Text(error.traceback.rstrip())


def _column(n: int) -> Column:
    # the last columns are the first to go where there is no room
    return Column(_HEADS[n], len(_HEADS) - n if n > 5 else None, " ".join(_HEADS[n]).strip())


def _cells(point: Point, run: Run) -> tuple[str, ...]:
    later = of.later_epochs(run)
    settled = of.settled_epochs(run)
    peaks = run.peaks
    descriptors = None
    if peaks is not None and peaks.main_descriptors is not None:
        descriptors = peaks.main_descriptors + (peaks.worker_descriptors or 0)
    cpu = of.cpu_per_batch(settled, with_workers=point.workers > 0)
    return (
        str(run.repeat + 1),
        _or_none(of.mean_seconds(run.epochs[:1]), units.seconds),
        _or_none(of.mean_seconds(later), units.seconds),
        _or_none(of.rate(run.epochs[:1]), units.rate),
        _or_none(of.rate(later), units.rate),
        _or_none(of.step_seconds(settled), units.seconds),
        _or_none(cpu, units.seconds),
        _or_none(peaks.main_bytes if peaks else None, units.size),
        _or_none(peaks.worker_bytes if peaks else None, units.size),
        _or_none(descriptors, units.number),
        _or_none(run.other_cpu_seconds, units.seconds),
    )


def _or_none(value: float | None, write: Callable[[float], str]) -> str:
    return NONE if value is None else write(value)
