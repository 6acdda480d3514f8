"""What looks like a leak and is none, each told with its figure: information, no warning."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from feedrate import units
from feedrate.analysis.grown import Grown
from feedrate.analysis.wording import figure
from feedrate.memory_records import MemoryLook, MemoryReading, MemoryWatch
from feedrate.records import Finding

_LEAST = 16 * 2**20
"""Less than this is not what anybody takes for a leak."""
_SHARED_SHARE = 0.2


_FLAT = 0.1
"""What is called flat moves by no more than this share of what it rose by before."""


def harmless(watch: MemoryWatch, grown: Iterable[Grown]) -> tuple[Finding, ...]:
    """Return what could be taken for a leak and is explained."""
    listed = tuple(grown)
    found = [_page_cache(watch), _mapped_files(watch), _shared_pages(watch)]
    found += [_warm_up(each) for each in listed]
    return tuple(each for each in found if each is not None)


def _page_cache(watch: MemoryWatch) -> Finding | None:
    first, last = watch.looks[0], watch.looks[-1]
    if None in (first.page_cache, last.page_cache, first.available, last.available):
        return None
    cached = (last.page_cache or 0) - (first.page_cache or 0)
    taken = (first.available or 0) - (last.available or 0)
    if cached < _LEAST or taken > cached / 2:
        return None
    return Finding(
        code="memory.page_cache",
        severity="info",
        title=f"The page cache grew by {units.size(cached)} as files were read: memory that the "
        "kernel gives back when it is needed, which no process holds.",
        evidence=(
            figure("growth of the page cache", cached, "bytes"),
            figure("available memory taken meanwhile", taken, "bytes"),
        ),
    )


def _mapped_files(watch: MemoryWatch) -> Finding | None:
    ends = _ends(watch)
    first, last = (_sum(look, "pss_file") for look in ends) if ends is not None else (None, None)
    if first is None or last is None or last - first < _LEAST:
        return None
    return Finding(
        code="memory.mapped_files",
        severity="info",
        title=f"Memory-mapped files take {units.size(last - first)} more than at first: pages of "
        "the page cache, which the kernel gives back when memory is needed.",
        evidence=(figure("growth of mapped files (Pss_File)", last - first, "bytes"),),
    )


def _shared_pages(watch: MemoryWatch) -> Finding | None:
    looks = [look for look in watch.looks if look.workers and _sum(look, "pss") is not None]
    if not looks:
        return None
    rss, pss = _sum(looks[-1], "rss"), _sum(looks[-1], "pss")
    if rss is None or pss is None or rss - pss < max(_LEAST, _SHARED_SHARE * rss):
        return None
    count = 1 + len(looks[-1].workers)
    return Finding(
        code="memory.shared_pages",
        severity="info",
        title=f"The RSS of the {count} processes adds up to {units.size(rss)}, but pages that they "
        f"have in common are shared and counted {count} times there: together they take "
        f"{units.size(pss)} (PSS).",
        evidence=(figure("sum of RSS", rss, "bytes"), figure("sum of PSS", pss, "bytes")),
    )


def _warm_up(made: Grown) -> Finding | None:
    least = _LEAST / 4 if made.unit == "bytes" else 16
    if made.growth.verdict != "none" or made.growth.warm_up < least:
        return None
    if abs(made.growth.slope) * made.growth.tail > _FLAT * made.growth.warm_up:
        return None  # it has not stopped: it rises by too little to be told as a leak
    show = units.size if made.unit == "bytes" else units.number
    hidden = made.growth.hidden or 0.0
    return Finding(
        code="memory.warm_up",
        severity="info",
        title=f"The {made.figure} rose by {show(round(made.growth.warm_up))} at first and stopped "
        f"growing: a plateau, as of a bounded cache or of what is set up once. Over the last "
        f"{made.growth.tail} of {made.growth.values} {_stretches(made)} it is flat.",
        evidence=(
            figure(
                f"rise of the {made.figure} before the plateau", made.growth.warm_up, _unit(made)
            ),
            figure("growth that could hide", hidden, _unit(made)),
        ),
    )


def _stretches(made: Grown) -> str:
    return {
        "epoch": "epochs that were looked at",
        "stretch": "stretches",
        "life": "parts of an epoch",
    }[made.series.per]


def _unit(made: Grown) -> str:
    return "bytes" if made.unit == "bytes" else ""


def _ends(watch: MemoryWatch) -> tuple[MemoryLook, MemoryLook] | None:
    """Return the first and last whole looks with as many workers as there mostly are."""
    whole = [look for look in watch.looks if _sum(look, "pss_file") is not None]
    if not whole:
        return None
    usual = int(np.bincount([len(look.workers) for look in whole]).argmax())
    same = [look for look in whole if len(look.workers) == usual]
    return same[0], same[-1]


def _sum(look: MemoryLook, name: str) -> int | None:
    readings: list[MemoryReading] = [look.main.memory, *(each.memory for each in look.workers)]
    values = [getattr(reading, name) for reading in readings]
    return None if None in values else sum(values)
