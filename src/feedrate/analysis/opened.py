"""Which Python objects stand behind descriptors that grow: those that increase as they do."""

from __future__ import annotations

from feedrate.memory_records import GrowthCause, MemoryWatch

_ALIKE = 2.0
"""So many times as many objects as descriptors, or one in so many, are taken for them."""


def increasing(watch: MemoryWatch, process: str, each_epoch: float) -> GrowthCause | None:
    """Return the objects of which a process has about so many more with each epoch.

    ``process`` is as in a `Cause`. ``None`` where the second pass found none.
    """
    for each in watch.objects:
        ratio = each.count / each_epoch if each_epoch > 0 else 0.0
        if each.process == process and 1 / _ALIKE <= ratio <= _ALIKE:
            return GrowthCause(
                process=process.partition(" ")[0],
                grown=round(each.bytes_per_epoch),
                file=each.file,
                line=each.line,
                type_name=each.type_name or "",
                count=round(each.count),
                holder=each.held_by[0] if each.held_by else "",
            )
    return None


def is_same_line(one: GrowthCause, other: GrowthCause | None) -> bool:
    """Tell whether two causes are allocated at the same place."""
    return other is not None and (one.file, one.line) == (other.file, other.line)
