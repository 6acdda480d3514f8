"""A cache of the dataset that each worker fills for itself, by the curve that it follows."""

from __future__ import annotations

from feedrate.analysis.figures import of_workers, private
from feedrate.analysis.levelling import Levelling, levelling
from feedrate.analysis.phases import early_series
from feedrate.memory_records import MemoryWatch

_CACHE_RATIO = 0.12
_CACHE_ITEM = 1024.0
"""A cache is one that keeps a kibibyte or more of each item."""
_FULL = 4
"""After so many epochs for each worker all but a fiftieth is there: what comes later is noise."""


def filling_cache(watch: MemoryWatch) -> Levelling | None:
    """Return the curve of the workers' memory if they fill a cache each, ``None`` if they do not.

    With shuffling a worker gets a 1/N part of all items each epoch, whichever it had before: of
    what it lacks it gets that part, so that each epoch adds 1 − 1/N of what the one before did.
    """
    early, count = early_series(watch, of_workers(private)), watch.num_workers
    if early is None or count < 2 or not watch.dataset_length:
        return None
    values = early.values[: _FULL * count + 2]
    curve = levelling(values[1:])
    if curve is None:
        return None
    # The curve begins with the second epoch, which adds (1 - 1/N) / N of the whole.
    whole = curve.first_step * count / (1 - 1 / count)
    first_epoch = values[1] - values[0]
    is_one = (
        abs(curve.ratio - (1 - 1 / count)) <= _CACHE_RATIO
        and whole >= _CACHE_ITEM * watch.dataset_length
        and whole / count / 2 <= first_epoch <= 2 * whole / count
    )
    return curve if is_one else None
