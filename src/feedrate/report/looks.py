"""How the figure tells things apart: by marker, line style and filling first, then by colour."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FuncFormatter

from feedrate.analysis.stats import Summary

# dark and light in turn, so that neighbours differ in black and white as well
_COLOURS = ("#1f3a68", "#e08214", "#1b7837", "#c77cba", "#4d4d4d", "#6baed6")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1)), (0, (9, 2)))

_NAME_WIDTH = 22

HATCH = "/////"
NO_FIGURE = "no figure: failed or skipped"


@dataclass(frozen=True, slots=True)
class Look:
    """One curve's colour, marker and line style."""

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[float, ...]]


def look_of(number: int) -> Look:
    """Return the look of the curve with this number; they repeat after six."""
    at = number % len(_COLOURS)
    return Look(_COLOURS[at], _MARKERS[at], _DASHES[at])


def title(figure: FigureBase, text: str) -> None:
    """Write the title of one half of the figure."""
    figure.suptitle(text, x=0.02, ha="left", fontsize=10)


def legend(figure: FigureBase, handles: Sequence[Artist]) -> None:
    """Put the legend below, where it can hide no figure."""
    if handles:
        figure.legend(handles=handles, loc="outside lower left")


def cross(axes: Axes, at: float, colour: str) -> None:
    """Mark a place that has no figure."""
    axes.plot(
        [at], [0], "x", color=colour, markersize=7, markeredgewidth=1.8, clip_on=False, zorder=6,
        label="_",
    )  # fmt: skip


def spread(axes: Axes, at: Sequence[float], figures: Sequence[Summary], colour: str) -> None:
    """Draw from the smallest to the largest value where there are several."""
    several = [(x, figure) for x, figure in zip(at, figures, strict=True) if figure.n > 1]
    if several:
        axes.errorbar(
            [x for x, _ in several],
            [figure.median for _, figure in several],
            yerr=[
                [figure.median - figure.low for _, figure in several],
                [figure.high - figure.median for _, figure in several],
            ],
            fmt="none",
            ecolor=colour,
            elinewidth=1.1,
            capsize=3.5,
            zorder=5,
        )


def places(axes: Axes, names: Sequence[str]) -> None:
    """Give each name a place of its own on the horizontal axis, with room for three at least."""
    margin = max(0.6, 1.6 - len(names) / 2)
    axes.set_xticks(range(len(names)), [textwrap.fill(name, _NAME_WIDTH) for name in names])
    axes.set_xlim(-margin, len(names) - 1 + margin)


def from_zero(axes: Axes) -> None:
    """Let the vertical axis begin at 0, with separators between thousands and faint lines."""
    axes.set_ylim(bottom=0)
    if axes.dataLim.y1 <= 0:
        axes.set_ylim(0, 1)
        axes.set_yticks([0])
        axes.text(0.5, 0.5, "nothing could be measured", ha="center", transform=axes.transAxes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.grid(axis="y", linewidth=0.5, color="0.85")
    axes.set_axisbelow(True)
