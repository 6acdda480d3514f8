"""At this rate: when a limit is reached."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from feedrate.analysis.phases import epoch_items
from feedrate.analysis.stats import Interval
from feedrate.memory_records import MemoryLook, MemoryRoom, MemoryWatch, ProcessReading


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


def share_taken(first: MemoryLook, last: MemoryLook, room: MemoryRoom) -> float:
    """Return what was taken between two looks, as a share of what ``room`` has left; the largest.

    Of memory, of ``/dev/shm`` (but for batches on their way) and of the descriptors of a process;
    0 where nothing grew.
    """

    def memory(look: MemoryLook) -> int:
        return sum(each.memory.rss for each in (look.main, *look.workers))

    def opened(processes: Sequence[ProcessReading]) -> int:
        return max((each.descriptors or 0 for each in processes), default=0)

    def left(limit: int | None, processes: Sequence[ProcessReading]) -> int | None:
        return None if limit is None else limit - opened(processes)

    mains = opened([last.main]) - opened([first.main])
    workers = opened(last.workers) - opened(first.workers)
    taken = (
        (memory(last) - memory(first), room.memory),
        ((last.shm_named or 0) - (first.shm_named or 0), room.shm),
        (mains, left(room.main_descriptors, [last.main])),
        (workers, left(room.worker_descriptors, last.workers)),
    )
    shares = [grown / max(1, rest) for grown, rest in taken if rest is not None]
    return max(0.0, *shares) if shares else 0.0


def _seconds_per_item(watch: MemoryWatch) -> float | None:
    first, last = watch.looks[0], watch.looks[-1]
    items = last.items - first.items
    return (last.at - first.at) / items if items > 0 else None
