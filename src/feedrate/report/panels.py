"""The two halves of the figure: rates over the worker count, and cold against warm epochs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from feedrate.analysis.stats import Summary
from feedrate.analysis.summary import Point
from feedrate.report.curves import Curve, Panel, only_count, shows_warm
from feedrate.report.looks import (
    HATCH,
    NO_FIGURE,
    Look,
    cross,
    from_zero,
    legend,
    look_of,
    places,
    spread,
    title,
)
from feedrate.report.words import count

_BAR = 0.38
_LEGEND_WIDTH = 66
_TITLE_WIDTH = 60
_INCHES_PER_DIGIT = 0.085

_Rated = tuple[Point, Summary]


def draw_rates(figure: FigureBase, curves: Sequence[Curve], *, items: str) -> None:
    """Draw items/s against workers, and mark where each curve's plateau starts.

    Where all points have the same count, each curve has a place of its own on the axis instead.
    """
    warm = shows_warm(curves)
    only = only_count(curves)
    axes = figure.subplots()
    axes.set_ylabel(f"{items}/s")
    handles: list[Artist] = []
    for number, curve in enumerate(curves):
        place = float if only is None else _always(number)
        handles += _draw_curve(axes, curve, look_of(number), warm=warm, place=place)
    from_zero(axes)
    if any(_rate(p, warm) is None for curve in curves for p in (*curve.main, *curve.repeated)):
        handles.append(_cross_handle())
    kind = _kind(curves)
    if only is None:
        title(figure, f"{items.capitalize()}/s of {kind} epochs against workers")
        axes.set_xlabel("workers")
        _tick_counts(axes, curves)
    else:
        title(figure, f"{items.capitalize()}/s of {kind} epochs with {count(only, 'worker')}")
        places(axes, [curve.name or count(only, "worker") for curve in curves])
    if not warm:
        axes.set_xlabel(f"{axes.get_xlabel()} (no warm epoch was measured)".strip())
    legend(figure, handles)


def draw_epochs(figure: FigureBase, panels: Sequence[Panel], *, rows: int, columns: int) -> None:
    """Draw two bars for each point of a panel: seconds of the cold epoch, and of a later one."""
    points = [point for panel in panels for _, point in panel.bars]
    later = {point.kind for point in points if point.epoch_seconds is not None}
    against = f"cold against {'later' if 'restarted' in later else 'warm'}"
    title(figure, f"Seconds an epoch, {against}" if later else "Seconds of the cold epoch")
    grid = figure.subplots(rows, columns, squeeze=False)
    all_axes = [grid[row][column] for column in range(columns) for row in range(rows)]
    for axes in all_axes[len(panels) :]:
        axes.remove()
    for axes, panel in zip(all_axes, panels, strict=False):
        _draw_panel(axes, panel, columns)
    _equal_heights(all_axes, panels)
    handles: list[Artist] = []
    if any(point.cold_seconds is not None for point in points):
        handles.append(_patch("cold epoch: the first, with start-up", hatch=HATCH))
    if later:
        words = "later epoch (*: workers are started again)"
        handles.append(_patch(words if "restarted" in later else "warm epoch", hatch=""))
    if any(point.cold_seconds is None for point in points):
        handles.append(_cross_handle())
    legend(figure, handles)


def _draw_curve(
    axes: Axes, curve: Curve, look: Look, *, warm: bool, place: Callable[[int], float]
) -> list[Artist]:
    handles: list[Artist] = []
    for points, repeated in ((curve.main, False), (curve.repeated, True)):
        rated = [(point, figure) for point in points if (figure := _rate(point, warm)) is not None]
        for point in points:
            if _rate(point, warm) is None:
                cross(axes, place(point.workers), look.colour)
        if rated:
            line = _median_line(axes, rated, look, repeated=repeated, place=place)
            line.set_label(_label(curve, rated, repeated=repeated))
            handles.append(line)
    start = curve.start
    if start is not None and start.rates is not None:
        _mark_start(axes, place(start.workers), start.rates.median, look)
    return handles


def _median_line(
    axes: Axes,
    points: Sequence[_Rated],
    look: Look,
    *,
    repeated: bool,
    place: Callable[[int], float],
) -> Line2D:
    at = [place(point.workers) for point, _ in points]
    (line,) = axes.plot(
        at,
        [figure.median for _, figure in points],
        color=look.colour,
        marker=look.marker,
        linestyle="none" if repeated or len(at) == 1 else look.dashes,
        linewidth=1.6,
        markersize=8 if repeated else 6,
        markerfacecolor="white" if repeated else look.colour,
        markeredgewidth=1.4,
        zorder=4 if repeated else 3,
    )
    spread(axes, at, [figure for _, figure in points], look.colour)
    return line


def _mark_start(axes: Axes, at: float, rate: float, look: Look) -> None:
    axes.plot(
        [at],
        [rate],
        marker="o",
        markersize=16,
        markerfacecolor="none",
        markeredgecolor=look.colour,
        zorder=2,
    )
    axes.plot([at, at], [0, rate], color=look.colour, linewidth=0.9, linestyle=":", zorder=2)


def _label(curve: Curve, points: Sequence[_Rated], *, repeated: bool) -> str:
    runs = sorted({figure.n for _, figure in points})
    if runs == [1]:
        values = "one run each"
    else:
        values = f"median of {'–'.join(str(n) for n in sorted({runs[0], runs[-1]}))} (min–max)"
    if repeated:
        words = [curve.name, f"repeated in rotated order, {values}"]
    else:
        words = [curve.name, values, curve.plateau_words]
    return textwrap.fill("; ".join(word for word in words if word), _LEGEND_WIDTH)


def _draw_panel(axes: Axes, panel: Panel, columns: int) -> None:
    look = look_of(panel.look)
    axes.set_title(textwrap.fill(panel.title, _TITLE_WIDTH // columns), loc="left")
    axes.set_xlabel(panel.axis)
    axes.set_ylabel("seconds")
    for at, (_, point) in enumerate(panel.bars):
        shift = _BAR / 2 if point.epoch_seconds is not None else 0.0
        _bar(axes, at - shift, point.cold_seconds, look, hatch=HATCH)
        _bar(axes, at + shift, point.epoch_seconds, look, hatch="")
        if point.cold_seconds is None:
            cross(axes, at, look.colour)
    places(axes, [_under(*bar) for bar in panel.bars])
    from_zero(axes)


def _equal_heights(all_axes: Sequence[Axes], panels: Sequence[Panel]) -> None:
    """Give the panels of one workload the same seconds, so that they compare at a glance."""
    for condition in {panel.condition for panel in panels}:
        together = [
            axes for axes, p in zip(all_axes, panels, strict=False) if p.condition == condition
        ]
        top = max(axes.get_ylim()[1] for axes in together)
        for axes in together:
            axes.set_ylim(0, top)


def _bar(axes: Axes, at: float, figure: Summary | None, look: Look, *, hatch: str) -> None:
    if figure is None:
        return
    axes.bar(
        at,
        figure.median,
        _BAR,
        facecolor="white" if hatch else look.colour,
        edgecolor=look.colour,
        hatch=hatch,
        linewidth=0.9,
    )
    spread(axes, [at], [figure], "black")


def _patch(label: str, *, hatch: str) -> Patch:
    return Patch(facecolor="white" if hatch else "0.25", edgecolor="0.25", hatch=hatch, label=label)


def _cross_handle() -> Line2D:
    return Line2D(
        [], [], color="0.25", marker="x", linestyle="none", markeredgewidth=1.8, label=NO_FIGURE
    )


def _under(label: str, point: Point) -> str:
    restarted = point.kind == "restarted" and point.epoch_seconds is not None
    return f"{label}*" if restarted else label


def _always(number: int) -> Callable[[int], float]:
    return lambda _: float(number)


def _kind(curves: Sequence[Curve]) -> str:
    if not shows_warm(curves):
        return "cold"
    kinds = {point.kind for curve in curves for point in curve.best}
    return "later" if "restarted" in kinds else "warm"


def _rate(point: Point, warm: bool) -> Summary | None:
    return None if warm and point.kind == "cold_only" else point.rates


def _tick_counts(axes: Axes, curves: Sequence[Curve]) -> None:
    """Put a tick at each measured count, and its number where there is room for one."""
    counts = sorted({p.workers for curve in curves for p in (*curve.main, *curve.repeated)})
    if not counts:
        return
    span = counts[-1] - counts[0]
    axes.set_xlim(counts[0] - 0.04 * span, counts[-1] + 0.04 * span)
    inches = axes.figure.bbox.width / axes.figure.dpi * 0.8 / span
    starts = [curve.start.workers for curve in curves if curve.start is not None]
    shown: list[int] = []
    for n in (counts[-1], *starts, counts[0], *counts):
        if all(abs(n - m) * inches > _room(n, m) for m in shown):
            shown.append(n)
    axes.set_xticks(counts, [str(n) if n in shown else "" for n in counts])


def _room(n: int, m: int) -> float:
    """Return the inches from the middle of one number to that of the other that keep them apart."""
    return _INCHES_PER_DIGIT * (len(str(n)) + len(str(m)) + 1) / 2
