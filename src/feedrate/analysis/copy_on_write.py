"""Copy-on-write: what forked workers copy of the dataset by reading it, and where that ends.

A forked worker shares its parent's pages until one of them writes. Reading a Python object counts
a reference, which is a write, so page after page turns from shared to the worker's own: its
Private_Dirty rises by what its Shared_Dirty falls, and Anonymous, the sum, stands still. It ends
when nothing that it reads is shared any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from feedrate.analysis.figures import (
    OfProcess,
    inherited_pages,
    own_pages,
    private,
    touched_pages,
)
from feedrate.analysis.levelling import levelling
from feedrate.memory_records import MemoryLook, MemoryWatch, ProcessReading

LEAST = 4 * 2**20
"""Less than this copied per worker is what the interpreter itself takes."""
_CONSERVED = 0.5
"""The pages copied have to leave the shared ones at this share or more."""
_ALLOCATED = 0.3
"""Anonymous memory may rise by this share of what was copied: a worker allocates a little too."""
_FEWEST_LOOKS = 8


class CopyOnWrite(msgspec.Struct, frozen=True, kw_only=True):
    """What workers copied, as means per worker, in bytes.

    Attributes:
        workers: how many there are.
        copied: what they copied from their first look to their last.
        left: what they still share with their parent, at the end: they can copy no more than that.
        most: what a worker's own pages come to at most, all that is left copied too.
        expected: what they come to by the curve that the copying follows; ``None`` where it has
            not bent yet.
        total: ``expected`` (else ``most``) of all workers together.
        too_many: from this number of workers on the copies no longer fit the memory that was free
            before any; ``None`` where no limit is known.
    """

    workers: int
    copied: float
    left: float
    most: float
    expected: float | None
    total: float
    too_many: int | None


def copy_on_write(watch: MemoryWatch) -> CopyOnWrite | None:
    """Return what the workers copied and will, ``None`` where they copy nothing to speak of."""
    lives = _lives(watch.looks)
    copied = _median(_change(life, own_pages) for life in lives)
    given = _median(_change(life, inherited_pages) for life in lives)
    allocated = _median(_change(life, private) for life in lives)
    if copied is None or given is None or allocated is None or copied < LEAST:
        return None
    if -given < _CONSERVED * copied or allocated > _ALLOCATED * copied:
        return None
    touched = _median(_change(life, touched_pages) for life in lives)
    if touched is not None and touched < _CONSERVED * copied:
        return None  # it was another process that wrote, and this one was left with the pages
    workers = max(len(look.workers) for look in watch.looks)
    own = _median(own_pages(life[-1]) for life in lives) or 0.0
    left = _median(inherited_pages(life[-1]) for life in lives) or 0.0
    most = own + left
    expected = _expected(lives, most)
    final = most if expected is None else expected
    return CopyOnWrite(
        workers=workers,
        copied=copied,
        left=left,
        most=most,
        expected=expected,
        total=workers * final,
        too_many=_too_many(watch, workers, own, final),
    )


def _lives(looks: Sequence[MemoryLook]) -> list[list[ProcessReading]]:
    """Return the readings of each worker that tell of its pages, in order."""
    found: dict[int, list[ProcessReading]] = {}
    for look in looks:
        for worker in look.workers:
            if own_pages(worker) is not None:
                found.setdefault(worker.pid, []).append(worker)
    return [life for life in found.values() if len(life) > 1]


def _expected(lives: Sequence[Sequence[ProcessReading]], most: float) -> float | None:
    """Return the level to which the own pages of the workers tend, by the curves that bent."""
    finals = []
    for life in lives:
        own = [value for each in life if (value := own_pages(each)) is not None]
        curve = levelling(own) if len(own) >= _FEWEST_LOOKS else None
        if curve is not None:
            finals.append(min(max(curve.final, own[-1]), most))
    return float(np.median(finals)) if 2 * len(finals) > len(lives) else None


def _too_many(watch: MemoryWatch, workers: int, own: float, final: float) -> int | None:
    """Return the first number of workers whose copies are more than was free without any."""
    if watch.room.memory is None or final <= 0:
        return None
    return int((watch.room.memory + workers * own) / final) + 1


def _change(life: Sequence[ProcessReading], figure: OfProcess) -> float | None:
    first, last = figure(life[0]), figure(life[-1])
    return None if first is None or last is None else last - first


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
