"""At this rate: when a limit is reached."""

from __future__ import annotations

import msgspec

from feedrate.analysis.phases import epoch_items
from feedrate.analysis.stats import Interval
from feedrate.memory_records import MemoryWatch


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When growth at a steady rate reaches a limit.

    ``limit`` is its name, ``left`` what remained at the end of the watch, in the unit of what
    grows. ``items`` is how many more items the loop takes until then, ``epochs`` and ``seconds``
    how much that is; ``None`` where an epoch's length (the pace) is not known. ``soonest`` is the
    items at the upper end of the rate's interval.
    """

    limit: str
    left: float
    items: float
    soonest: float
    epochs: float | None
    seconds: float | None


def forecast(
    watch: MemoryWatch, limit: str, left: float | None, rate: float, interval: Interval
) -> Forecast | None:
    """Return when ``left`` is used up by ``rate`` per item; ``None`` without limit or growth.

    ``rate`` and ``interval`` are of all processes together that draw on the limit.
    """
    if left is None or rate <= 0:
        return None
    room = max(0.0, left)
    items = room / rate
    an_epoch = epoch_items(watch)
    pace = _seconds_per_item(watch)
    return Forecast(
        limit=limit,
        left=room,
        items=items,
        soonest=room / max(rate, interval.high),
        epochs=items / an_epoch if an_epoch else None,
        seconds=items * pace if pace else None,
    )


def _seconds_per_item(watch: MemoryWatch) -> float | None:
    first, last = watch.looks[0], watch.looks[-1]
    items = last.items - first.items
    return (last.at - first.at) / items if items > 0 else None
