"""Growth that ends by itself: what holds it takes so many things and then drops the oldest."""

from __future__ import annotations

import msgspec

from feedrate.analysis.grown import Grown
from feedrate.analysis.levelling import Levelling
from feedrate.memory_records import MemoryWatch

_ALL = 0.9
"""This share of what grows in a process has to be in containers with a limit."""
_EXPLAINED = 0.5
"""Python's allocations have to explain this share of the growth."""
_SAFE = 4.0
"""The end has to fit so many times: an entry may be of several objects, of which some are seen."""


def bounded(watch: MemoryWatch, made: Grown, process: str) -> Grown | None:
    """Return the growth of a process with its end, ``None`` where none is known, or does not fit.

    ``process`` is as in a `feedrate.memory_records.Cause`.
    """
    cause, left = made.cause, watch.room.memory
    objects = [each for each in watch.objects if each.process == process]
    limited = [each for each in objects if each.most is not None and each.count > 0]
    whole = sum(each.bytes_per_epoch for each in objects)
    share = sum(each.bytes_per_epoch for each in limited)
    if made.growth.verdict != "grows" or made.within_epoch or made.per_epoch is None:
        return None
    if cause is None or not limited or share < _ALL * whole:
        return None
    if not cause.traced or cause.traced < _EXPLAINED * cause.grown:
        return None
    first = max(limited, key=lambda each: each.bytes_per_epoch)
    # what its memory takes beyond that is the allocator's share
    an_entry = first.bytes_per_epoch / first.count * max(1.0, cause.grown / cause.traced)
    now = made.series.values[-1]
    remaining = max(0.0, (first.most or 0) * an_entry - (now - made.series.values[0]))
    if left is not None and _SAFE * remaining * made.processes > left:
        return None
    curve = Levelling(
        ratio=1.0, final=now + remaining, remaining=remaining, first_step=made.growth.slope
    )
    levelled = msgspec.structs.replace(made.growth, verdict="levels_off", curve=curve)
    return msgspec.structs.replace(made, growth=levelled)
