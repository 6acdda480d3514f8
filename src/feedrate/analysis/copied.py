"""What is said of copies on write: that the dataset's items are read, or what else it may be."""

from __future__ import annotations

from feedrate import units
from feedrate.analysis.copy_on_write import CopyOnWrite
from feedrate.analysis.wording import figure, workers
from feedrate.memory_records import MemoryWatch
from feedrate.records import Finding

_EXPLAINED = 0.1
"""Objects of less than this share of what was copied do not explain it, even one to a page."""
_MOST_WORKERS = 100
"""Nobody wants more workers than that."""


def is_reading(watch: MemoryWatch, copied: CopyOnWrite) -> bool:
    """Tell whether there are Python objects enough whose reading may have copied so much."""
    return watch.readable is None or watch.readable >= _EXPLAINED * copied.copied


def of_reading(copied: CopyOnWrite) -> Finding:
    """Return what is said where the workers read Python objects."""
    final = copied.most if copied.expected is None else copied.expected
    about = "at most" if copied.expected is None else "about"
    title = (
        f"{workers(copied.workers)} copied {units.size(copied.copied)} of the dataset's items each "
        f"by reading them (copy-on-write). It ends: {about} {units.size(final)} per worker, "
        f"{units.size(copied.total)} in all workers"
    )
    if copied.too_many is not None and copied.too_many <= _MOST_WORKERS:
        title += f"; from {workers(copied.too_many)} on that no longer fits the memory"
    evidence = [
        figure("copied per worker so far", copied.copied, "bytes"),
        figure("still shared per worker", copied.left, "bytes"),
        figure("own pages per worker in the end", final, "bytes"),
        figure("own pages of all workers in the end", copied.total, "bytes"),
    ]
    return Finding(
        code="memory.cow_growth",
        severity="warning",
        title=f"{title}.",
        evidence=tuple(evidence),
        remedy="Hold the records in feedrate.SharedList, or in arrays: reading those writes "
        "nothing.",
    )


def of_other_writes(watch: MemoryWatch, copied: CopyOnWrite) -> Finding:
    """Return what is said where the dataset has too few objects for what was copied."""
    objects = watch.readable or 0
    return Finding(
        code="memory.cow_growth",
        severity="info",
        title=f"{workers(copied.workers)} copied {units.size(copied.copied)} each of what they "
        f"share with the main process (copy-on-write), and not by reading items: the dataset has "
        f"{units.size(objects)} of Python objects. Python's collector goes through all objects "
        "once in each worker; or the workers write to arrays that they share. It ends: at most "
        f"{units.size(copied.most)} per worker.",
        evidence=(
            figure("copied per worker so far", copied.copied, "bytes"),
            figure("Python objects of the dataset and its module", objects, "bytes"),
            figure("still shared per worker", copied.left, "bytes"),
        ),
        remedy="Call gc.freeze() before the loader is iterated, if the memory is wanted: the "
        "collector then leaves alone what workers inherit.",
    )
