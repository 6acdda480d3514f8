"""What each process held at first and at last, and by how much it rises: the rows of a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import msgspec
from scipy.stats import theilslopes

from feedrate.analysis.phases import epoch_items
from feedrate.memory_records import MemoryLook, MemoryWatch, ProcessReading

OfReading = Callable[[ProcessReading], float | None]

FIGURES: dict[str, OfReading] = {
    "VMS": lambda process: process.virtual,
    "RSS": lambda process: process.memory.rss,
    "PSS": lambda process: process.memory.pss,
    "USS": lambda process: process.memory.uss,
    "anonymous": lambda process: process.memory.anonymous,
    "private dirty": lambda process: process.memory.private_dirty,
    "shared dirty": lambda process: process.memory.shared_dirty,
    "file": lambda process: process.memory.pss_file,
    "shmem": lambda process: process.memory.pss_shmem,
    "descriptors": lambda process: process.descriptors,
    "threads": lambda process: process.threads,
}
"""The table's columns, by name: bytes, and counts of descriptors and threads."""
_FEW = 4
"""So many workers get a row each."""


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one process, at first and at last; ``slope`` is its rise per epoch.

    ``None`` where the platform does not tell; the slope too where no epoch came to its end.
    """

    first: float | None
    last: float | None
    slope: float | None


class ProcessRows(msgspec.Struct, frozen=True, kw_only=True):
    """One process, or the mean of several, with its figures in the order of `FIGURES`."""

    name: str
    amounts: tuple[Amounts, ...]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """All processes of the last look together; ``None`` where the platform does not tell."""

    processes: int
    rss: int
    pss: int | None
    virtual: int | None


def memory_table(watch: MemoryWatch, *, every: bool = False) -> tuple[ProcessRows, ...]:
    """Return the main process, and the workers: each of a few that stay, else their mean.

    ``every`` gives each of many a row as well.
    """
    rows = [_rows("main", watch, [(look, (look.main,)) for look in watch.looks])]
    alive = [look for look in watch.looks if look.workers]
    if not alive:
        return tuple(rows)
    pids = list(dict.fromkeys(each.pid for look in alive for each in look.workers))
    if len(pids) == len(alive[-1].workers) and (every or len(pids) <= _FEW):
        for number, pid in enumerate(pids):
            of_pid = [
                (look, tuple(each for each in look.workers if each.pid == pid)) for look in alive
            ]
            rows.append(_rows(f"worker {number}", watch, [pair for pair in of_pid if pair[1]]))
        return tuple(rows)
    count = max(len(look.workers) for look in alive)
    name = "worker" if count == 1 else f"{count} workers"
    rows.append(_rows(name, watch, [(look, look.workers) for look in alive]))
    return tuple(rows)


def totals(watch: MemoryWatch) -> Totals:
    """Return the sums over all processes at the last whole look, one with workers if one has."""
    whole = [look for look in watch.looks if look.main.memory.pss is not None] or watch.looks
    look = next((each for each in reversed(whole) if each.workers), whole[-1])
    processes = (look.main, *look.workers)
    return Totals(
        processes=len(processes),
        rss=sum(each.memory.rss for each in processes),
        pss=_sum(each.memory.pss for each in processes),
        virtual=_sum(each.virtual for each in processes),
    )


def _rows(
    name: str,
    watch: MemoryWatch,
    seen: Sequence[tuple[MemoryLook, tuple[ProcessReading, ...]]],
) -> ProcessRows:
    return ProcessRows(
        name=name, amounts=tuple(_amounts(watch, seen, figure) for figure in FIGURES.values())
    )


def _amounts(
    watch: MemoryWatch,
    seen: Sequence[tuple[MemoryLook, tuple[ProcessReading, ...]]],
    figure: OfReading,
) -> Amounts:
    values = []
    for look, processes in seen:
        known = [value for each in processes if (value := figure(each)) is not None]
        if known:
            values.append((look, sum(known) / len(known)))
    if not values:
        return Amounts(first=None, last=None, slope=None)
    # what was read once, at the end, was not read at first
    first = values[0][1] if len(values) > 1 or len(seen) == 1 else None
    return Amounts(first=first, last=values[-1][1], slope=_slope(watch, values))


def _slope(watch: MemoryWatch, values: Sequence[tuple[MemoryLook, float]]) -> float | None:
    """Return the Theil–Sen slope over the last looks of epochs, of those after the first third."""
    an_epoch = epoch_items(watch)
    last = {
        look.epoch: (look.items, value)
        for look, value in values
        if look.phase == 1.0 and look.epoch < watch.complete_epochs
    }
    points = list(last.values()) if len(last) >= 3 else [(look.items, v) for look, v in values]
    points = points[len(points) // 3 :]
    apart = any(a[0] != b[0] for a, b in itertools.pairwise(points))
    if an_epoch is None or not apart:
        return None
    slope = theilslopes([value for _, value in points], [float(items) for items, _ in points])[0]
    return float(slope) * an_epoch


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
