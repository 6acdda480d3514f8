"""The table of one series: what each setting delivers, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from feedrate import units
from feedrate.analysis.stats import Summary
from feedrate.analysis.summary import Point
from feedrate.records import Benchmark
from feedrate.report.grid import Column, Grid, Row
from feedrate.report.series import NONE, Group, Setting
from feedrate.report.words import count

RESTARTED = "*"
CHOSEN = "▸"


@dataclass(frozen=True, slots=True)
class _Figure:
    """A column with figures, and how a point fills it."""

    column: Column
    cell: Callable[[Point], str]


def render_table(group: Group, *, items: str, chosen: Sequence[Benchmark] = ()) -> Grid:
    """Return the table of a group; rows of ``chosen`` benchmarks are marked."""
    labels = [
        _Figure(Column(("", "")), lambda p: CHOSEN if p.benchmark in chosen else " "),
        _Figure(Column(("", "workers")), lambda p: str(p.workers)),
        *map(_varying, group.varying),
    ]
    figures = _figures(group.points, items) if any(map(_has_figures, group.points)) else []
    rows = tuple(
        Row(
            tuple(f.cell(point) for f in (labels + figures if _has_figures(point) else labels)),
            note=row_note(point.benchmark),
            style=_style(point, chosen),
        )
        for point in group.points
    )
    return Grid(tuple(f.column for f in labels + figures), rows, len(labels))


def row_note(benchmark: Benchmark) -> str:
    """Return why a benchmark has no, or not all, figures; "" where it has them all."""
    if benchmark.skipped is not None:
        return f"skipped: {benchmark.skipped}"
    if not benchmark.runs:
        return "not measured: the suite ended before it."
    failed: dict[str, int] = {}
    for run in benchmark.runs:
        if run.error is not None:
            failed[run.error.sentence] = failed.get(run.error.sentence, 0) + 1
    total = len(benchmark.runs)
    return " ".join(
        f"failed: {sentence}"
        if times == total == 1
        else f"{times} of {count(total, 'run')} failed: {sentence}"
        for sentence, times in failed.items()
    )


def _varying(setting: Setting) -> _Figure:
    return _Figure(Column(setting.head), lambda point: setting.of(point.benchmark))


def _figures(points: Sequence[Point], items: str) -> list[_Figure]:
    only_cold = all(point.kind == "cold_only" for point in points if point.rates is not None)

    def rates(point: Point) -> Summary | None:
        # cold and warm never stand in one column
        return point.rates if only_cold or point.kind != "cold_only" else None

    rated = [point for point in points if rates(point) is not None]
    shown = [(True, _startup()), (not only_cold, _cold(items)), *_rates(rated, rates, items)]
    shown += [
        _against(points, rated, rates),
        (True, _Figure(Column(("", "wait"), 7, "wait"), lambda p: _wait(p, rates(p)))),
        (True, _Figure(Column(_memory_head(points), 8, "memory"), lambda p: _size(p.peak_total))),
        (
            any(point.peak_shm is not None for point in points),
            _Figure(Column(("", "/dev/shm"), 1, "/dev/shm"), lambda p: _size(p.peak_shm)),
        ),
    ]
    return [figure for is_shown, figure in shown if is_shown] + _device(points)


def _startup() -> _Figure:
    column = Column(("", "start-up"), 2, "start-up")
    return _Figure(column, lambda point: _median(point.startup, units.seconds))


def _cold(items: str) -> _Figure:
    column = Column(("cold epoch", f"{items}/s"), 3, "cold epoch")
    return _Figure(column, lambda point: _median(point.cold_rates, units.rate))


def _rates(
    rated: Sequence[Point], rates: Callable[[Point], Summary | None], items: str
) -> list[tuple[bool, _Figure]]:
    """Return the median's column, and that of the range, which is shown where there is one."""
    kinds = {point.kind for point in rated}
    name = "cold epoch" if kinds == {"cold_only"} else "warm"
    if "restarted" in kinds:
        name = "later epochs"

    def middle(point: Point) -> str:
        text = _median(rates(point), units.rate)
        if "restarted" not in kinds:
            return text
        return text + (RESTARTED if point.kind == "restarted" else " ")

    def spread(point: Point) -> str:
        figure = rates(point)
        if figure is None or figure.n == 1:
            return ""
        return f"({units.rate(figure.low)}–{units.rate(figure.high)})"

    return [
        (True, _Figure(Column((name, f"{items}/s")), middle)),
        (any(map(spread, rated)), _Figure(Column(("", "(min–max)"), 5, "min–max"), spread)),
    ]


def _against(
    points: Sequence[Point], rated: Sequence[Point], rates: Callable[[Point], Summary | None]
) -> tuple[bool, _Figure]:
    """Return the column that compares with the first row that has a rate."""
    base = rates(rated[0]) if rated else None
    workers = [point.workers for point in points]
    first = rated[0].workers if rated else 0
    name = count(first, "worker") if workers.count(first) == 1 else "first row"

    def times(point: Point) -> str:
        figure = rates(point)
        if base is None or figure is None:
            return NONE
        return units.ratio(figure.median / base.median)

    return len(points) > 1, _Figure(Column(("against", name), 6, "ratio"), times)


def _wait(point: Point, rates: Summary | None) -> str:
    return _median(point.wait_share if rates is not None else None, units.share)


def _device(points: Sequence[Point]) -> list[_Figure]:
    """Return the accelerator's columns, none where no run has used one."""
    if all(run.device is None for point in points for run in point.benchmark.runs):
        return []
    return [
        _Figure(Column(("GPU", "busy"), 4, "GPU busy"), _utilization),
        _Figure(Column(("GPU", "memory"), 0, "GPU memory"), _allocated),
    ]


def _utilization(point: Point) -> str:
    devices = [run.device for run in point.runs if run.device is not None]
    known = [device.utilization for device in devices if device.utilization is not None]
    return units.share(median(known)) if known else NONE


def _allocated(point: Point) -> str:
    devices = [run.device for run in point.runs if run.device is not None]
    known = [device.allocated_bytes for device in devices if device.allocated_bytes is not None]
    return _size(max(known, default=None))


def _has_figures(point: Point) -> bool:
    return point.rates is not None or point.cold_rates is not None


def _style(point: Point, chosen: Sequence[Benchmark]) -> str:
    if point.benchmark in chosen:
        return "bold"
    return "" if _has_figures(point) else "yellow"


def _memory_head(points: Sequence[Point]) -> tuple[str, ...]:
    if any(point.memory_kind == "rss" for point in points):
        return ("memory (RSS,", "shared pages", "counted twice)")
    return ("memory", "(PSS)")


def _median(figure: Summary | None, write: Callable[[float], str]) -> str:
    return NONE if figure is None else write(figure.median)


def _size(value: int | None) -> str:
    return NONE if value is None else units.size(value)
