"""The figure of a tune: measured levels, the roofline over them, and what the race confirmed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from feedrate.analysis.race import Entry, winner
from feedrate.analysis.roofline import Roofline
from feedrate.analysis.tuned import Tuned
from feedrate.report.looks import from_zero, legend, look_of, title

_CEILINGS = (("cpus", "CPUs", (0, (5, 2))), ("loop", "the loop", (0, (1, 1.2))))
_ROOM = 1.15


def draw_tune(figure: FigureBase, tuned: Tuned, *, items: str) -> None:
    """Draw items/s against workers: measured, bounded by, and confirmed."""
    axes = figure.subplots()
    title(figure, f"{items.capitalize()}/s against workers, and what bounds them")
    axes.set_xlabel("workers")
    axes.set_ylabel(f"{items}/s")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    stretches = [*tuned.levels]
    if tuned.look is not None and tuned.look.level == 0:
        stretches.insert(0, tuned.look)
    look = look_of(0)
    handles: list[Artist] = []
    if stretches:
        (line,) = axes.plot(
            [each.level for each in stretches],
            [each.rate for each in stretches],
            color=look.colour,
            marker=look.marker,
            linewidth=1.6,
            label="measured, one window a level",
        )
        handles.append(line)
    each_batch = (tuned.look or stretches[0]).items_a_batch if tuned.look or stretches else 0.0
    most = _most_workers(tuned)
    top = max((each.rate for each in stretches), default=0.0)
    handles += _roof(axes, tuned.roof, each_batch, most, top)
    handles += _confirmed(axes, tuned)
    axes.set_xlim(-0.5, most + 0.5)
    from_zero(axes)
    legend(figure, handles)


def _most_workers(tuned: Tuned) -> int:
    counts = [each.level for each in tuned.levels]
    counts += [each.settings.num_workers for each in tuned.race]
    return max([*counts, tuned.look.level if tuned.look is not None else 0, 1])


def _roof(axes: Axes, roof: Roofline, each_batch: float, most: int, top: float) -> list[Artist]:
    handles: list[Artist] = []
    knee = roof.knee
    # straight between these: it rises up to the knee, and is flat from there on
    at = sorted({1.0, most + 0.5, *([knee] if knee is not None and 1 < knee < most else [])})
    roofs = [
        each_batch * min(roof.ceiling("cpus", 1), roof.ceiling("loop", 1), _fed(roof, x))
        for x in at
    ]
    if all(map(math.isfinite, roofs)):
        (line,) = axes.plot(at, roofs, color="0.35", linewidth=1.2, zorder=1.5, label="roofline")
        handles.append(line)
        top = max(top, *roofs)
    for bound, name, dashes in _CEILINGS:
        ceiling = each_batch * roof.ceiling("cpus" if bound == "cpus" else "loop", 1)
        # a ceiling far above everything measured would only press the curve down
        if math.isfinite(ceiling) and 0 < ceiling <= 3 * top:
            line = axes.axhline(
                ceiling, color="0.55", linewidth=1.0, linestyle=dashes, label=f"most that {name} "
                "can take" if bound == "loop" else f"most that the {name} can make",
            )  # fmt: skip
            handles.append(line)
    return handles


def _fed(roof: Roofline, workers: float) -> float:
    return workers / roof.fetch if roof.fetch else math.inf


def _confirmed(axes: Axes, tuned: Tuned) -> list[Artist]:
    best = winner(tuned.race, tuned.procedure.tolerance)
    shown = [(each, "your settings, confirmed") for each in (tuned.own_entry,) if each]
    shown += [(each, "the best other settings, confirmed") for each in (best,) if each]
    return [_range(axes, entry, name, number) for number, (entry, name) in enumerate(shown, 1)
            if entry.rates]  # fmt: skip


def _range(axes: Axes, entry: Entry, name: str, number: int) -> Artist:
    look = look_of(number)
    values: Sequence[float] = sorted(entry.rates.values())
    drawn = axes.errorbar(
        [entry.settings.num_workers],
        [entry.rate],
        yerr=[[entry.rate - values[0]], [values[-1] - entry.rate]],
        fmt=look.marker,
        color=look.colour,
        markersize=9,
        markerfacecolor="white",
        markeredgewidth=1.6,
        capsize=4,
        zorder=5,
        label=f"{name} (min–max of {len(values)})",
    )
    return cast(Artist, drawn)
