"""Who has the files in ``/dev/shm`` mapped that pile up there."""

from __future__ import annotations

from feedrate.analysis.figures import shared_memory
from feedrate.analysis.grown import Grown, of_bytes
from feedrate.memory_records import MemoryLook, MemoryWatch

_MOST_OF_IT = 0.5


def who_maps(watch: MemoryWatch, made: Grown) -> str:
    """Return the words that say who maps them, "" where that does not show.

    Batches on their way are mapped too, and come and go: only what rises as the files do is theirs,
    and nobody has them mapped only where all that is mapped moves by less than they have grown.
    """
    kept = of_bytes(watch, "", _of_workers, None)
    rate = kept.growth.slope if kept is not None and kept.is_growing else 0.0
    if rate > 0 and rate >= _MOST_OF_IT * made.growth.slope:
        return " that workers have mapped"
    totals = [_of_all(look) for look in watch.looks]
    known = [total for total in totals if total is not None]
    if len(known) < len(totals):
        return ""
    moved = max(known) - min(known)
    grown = made.series.values[-1] - made.series.values[0]
    return " that no process of this run has mapped" if moved < _MOST_OF_IT * grown else ""


def _of_workers(look: MemoryLook) -> float | None:
    """Return what all workers map of shared memory, ``None`` where one does not tell."""
    values = [shared_memory(each) for each in (*look.workers, *look.others)]
    return None if None in values else sum(value for value in values if value is not None)


def _of_all(look: MemoryLook) -> float | None:
    main, workers = shared_memory(look.main), _of_workers(look)
    return None if main is None or workers is None else main + workers
