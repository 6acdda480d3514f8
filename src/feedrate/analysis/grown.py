"""One figure of a watch, the verdict on it, and what the growth is by item and by epoch."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from feedrate.analysis.figures import Figure
from feedrate.analysis.forecast import Forecast
from feedrate.analysis.growth import Growth, Scale, growth
from feedrate.analysis.phases import BINS, Series, epoch_items, life_series, series, workers_stay
from feedrate.analysis.stats import Interval
from feedrate.memory_records import GrowthCause, MemoryWatch

_FAR_EPOCHS = 1000
"""What reaches a limit after more epochs than this may hide in noise; it is told how much."""
_LIVES = 2 * BINS
"""A life that so many epochs with looks could not fill has too few batches for it."""


MAIN, WORKER = "main", "worker 0"


class Grown(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, and whether it grows.

    Attributes:
        figure: its name in words; ``unit`` is "bytes" or "count". ``which`` is put behind the name
            of its kind where that has to be told apart, as " of another loader".
        process: "main", or `WORKER` for any of the loader's workers, as in a `Cause`; "" else.
        code: the kind, where it grows or levels off; "" else.
        series: the values behind the verdict, and ``growth`` the verdict, per value.
        processes: how many processes it is the mean of.
        per_item: the growth per item that the loop takes, of all those processes together;
            ``interval`` is where it lies.
        per_epoch: the same per epoch, ``None`` where no epoch came to its end.
        within_epoch: it is given back when an epoch's workers end.
        cause: what the second pass found.
        forecast: when a limit is reached, where it grows and there is one.
    """

    figure: str
    unit: str
    code: str
    series: Series
    growth: Growth
    processes: int
    per_item: float
    interval: Interval
    per_epoch: float | None
    within_epoch: bool = False
    cause: GrowthCause | None = None
    forecast: Forecast | None = None
    which: str = ""
    process: str = ""

    @property
    def is_growing(self) -> bool:
        """Whether it grows, with or without an end in sight."""
        return self.growth.verdict in ("grows", "levels_off")


def of_bytes(
    watch: MemoryWatch,
    name: str,
    figure: Figure,
    left: int | None,
    *,
    cause: GrowthCause | None = None,
    process: str = "",
    processes: int = 1,
) -> Grown | None:
    """Return a figure of bytes with its verdict, ``None`` where no look tells it.

    ``left`` is what remains until a limit, and ``cause`` what the second pass found. It is the mean
    of the watched loader's workers where ``process`` is `WORKER`, or of so many ``processes``.
    """
    scale = Scale.of_bytes
    return _judged(watch, name, "bytes", figure, scale, left, process, cause, processes)


def of_counts(
    watch: MemoryWatch,
    name: str,
    figure: Figure,
    *,
    process: str = "",
    processes: int = 1,
) -> Grown | None:
    """Return the same of descriptors, threads or processes."""
    scale = Scale.of_counts
    return _judged(watch, name, "count", figure, scale, None, process, None, processes)


def _judged(
    watch: MemoryWatch,
    name: str,
    unit: str,
    figure: Figure,
    scale_of: Callable[[float, int], Scale],
    left: int | None,
    process: str,
    cause: GrowthCause | None,
    processes: int,
) -> Grown | None:
    in_workers = process == WORKER
    within = in_workers and not workers_stay(watch)
    made = life_series(watch, figure) if within else series(watch, figure)
    if made is None and within and watch.complete_epochs == 0:
        # The only epoch has not ended, nor have its workers: they are all that there is.
        made, within = series(watch, figure), False
    if made is None and within and any(look.workers for look in watch.looks):
        return _untold(watch, name, unit, process)
    if made is None or made.items <= 0:  # epochs without a batch
        return None
    count = processes
    if in_workers:
        count = max((len(look.workers) for look in watch.looks), default=0)
    an_epoch = epoch_items(watch)
    scale = scale_of(made.items * made.cut, max(1, count))
    scale = msgspec.structs.replace(scale, matters=scale.matters / made.cut)
    if left is not None and an_epoch:
        far = left / _FAR_EPOCHS * made.items / an_epoch / max(1, count)
        scale = msgspec.structs.replace(scale, tolerated=far)
    # a worker is done some batches before the loop is, so that its life bends at the end
    verdict = growth(made.values, scale, made.blur, may_bend=not within)
    if verdict.verdict != "grows" and cause is not None and not cause.traced:
        cause = None  # it had stopped by then: what the second pass saw is no growth to explain
    rate = verdict.slope * count / made.items
    return Grown(
        figure=name,
        unit=unit,
        code="",
        series=made,
        growth=verdict,
        processes=count,
        per_item=rate,
        interval=Interval(
            low=verdict.interval.low * count / made.items,
            high=verdict.interval.high * count / made.items,
        ),
        per_epoch=rate * an_epoch if an_epoch else None,
        within_epoch=within,
        cause=cause,
        process=process,
    )


def _untold(watch: MemoryWatch, name: str, unit: str, process: str) -> Grown:
    """Return a figure of workers that live for an epoch, where looks fill no life.

    That takes some epochs; where the epochs have few batches it takes more than there can be.
    """
    looked_at = len({look.epoch for look in watch.looks if look.workers})
    return Grown(
        figure=name,
        unit=unit,
        code="",
        series=Series(values=(0.0,), items=epoch_items(watch) or 1.0, per="life"),
        growth=Growth(
            verdict="undecided",
            slope=0.0,
            interval=Interval(low=0.0, high=0.0),
            values=0,
            tail=0,
            warm_up=0.0,
            hidden=None,
            more=_LIVES - looked_at if looked_at < _LIVES else None,
        ),
        processes=1,
        per_item=0.0,
        interval=Interval(low=0.0, high=0.0),
        per_epoch=None,
        within_epoch=True,
        process=process,
    )
