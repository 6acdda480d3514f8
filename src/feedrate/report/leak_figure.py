"""The figure of a watch: what each process held over its epochs, and what shares look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from feedrate.analysis.figures import of_main, of_workers, private
from feedrate.analysis.phases import epoch_items
from feedrate.memory_records import MemoryLook, MemoryWatch, ProcessReading
from feedrate.report.looks import from_zero, legend, look_of, title

_MIB = 2**20
OfLook = Callable[[MemoryLook], float | None]


def draw_watch(figure: FigureBase, watch: MemoryWatch) -> None:
    """Draw the main process on the left, and the mean of its workers on the right if it has any."""
    has_workers = any(look.workers for look in watch.looks)
    axes = figure.subplots(1, 2 if has_workers else 1, squeeze=False)[0]
    title(figure, "memory over the epochs, MiB")
    handles = _draw(axes[0], watch, "main process", of_main)
    if has_workers:
        _draw(axes[1], watch, "a worker (mean)", of_workers)
    legend(figure, handles)


def _draw(
    axes: Axes,
    watch: MemoryWatch,
    name: str,
    of: Callable[[Callable[[ProcessReading], float | None]], OfLook],
) -> Sequence[Artist]:
    an_epoch = epoch_items(watch) or 1.0
    handles: list[Artist] = []
    for number, (label, figure) in enumerate(
        (
            ("allocated (anonymous)", of(private)),
            ("RSS, with what is shared", of(lambda process: float(process.memory.rss))),
            ("PSS", of(lambda process: _number(process.memory.pss))),
        )
    ):
        points = [
            (look.items / an_epoch, value / _MIB)
            for look in watch.looks
            if (value := figure(look)) is not None
        ]
        if not points:
            continue
        look = look_of(number)
        (line,) = axes.plot(
            [at for at, _ in points],
            [value for _, value in points],
            color=look.colour,
            linestyle=look.dashes,
            marker=look.marker,
            markersize=3.5,
            linewidth=1.3,
            label=label,
        )
        handles.append(line)
    axes.set_title(name, loc="left")
    axes.set_xlabel("epochs" if epoch_items(watch) else "items")
    from_zero(axes)
    return handles


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)
