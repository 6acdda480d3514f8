"""Which processes a second pass has to look into, for the first has told only that they grow."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from feedrate.analysis.growing import each_figure, everything
from feedrate.analysis.grown import Grown
from feedrate.memory_records import MemoryWatch

_OF_PYTHON = {
    "memory.main_step_growth": "main",
    "memory.worker_growth": "worker 0",
    "memory.dataset_cache_growth": "worker 0",
    "memory.fd_growth_main": "main",
    "memory.fd_growth_worker": "worker 0",
    "memory.thread_growth_main": "main",
    "memory.thread_growth_worker": "worker 0",
}
"""The kinds of growth that Python objects may explain, and a process that shows it."""


_OF_FILES = ("memory.fd_growth_main", "memory.fd_growth_worker")


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A process that grows: "main", or "worker 0" for any of the workers.

    ``expected`` is by how many bytes, with each of its own items: 0 where it has stopped by now, as
    a cache does that is full; ``None`` where only its files or threads grow.
    """

    process: str
    expected: float | None


def suspects(watch: MemoryWatch) -> tuple[Suspect, ...]:
    """Return the processes that grow in a way that Python objects may explain, each once."""
    if not watch.looks:
        return ()
    rates: dict[str, float] = {}
    for each in each_figure(watch):
        process = _process(each)
        if process is not None and each.unit == "bytes" and each.growth.verdict == "grows":
            rates.setdefault(process, each.per_item)
    told: dict[str, list[Grown]] = {}
    for each in everything(watch):
        process = _process(each)
        if process is not None:
            told.setdefault(process, []).append(each)
    return tuple(
        Suspect(process=process, expected=_expected(grown, rates.get(process)))
        for process, grown in told.items()
    )


def _expected(told: Sequence[Grown], rate: float | None) -> float | None:
    """Return what is to be expected of a process, from what is told of it and its memory's rate.

    What open files take is not told as growth of memory, but what is found is held against it.
    What threads take is in C, and no object that is found explains any of it.
    """
    if any(each.unit == "bytes" for each in told):
        return rate or 0.0
    if any(each.code in _OF_FILES for each in told):
        return rate
    return None


def _process(grown: Grown) -> str | None:
    """Return the process to be looked into; none of another loader's, where the pass cannot be."""
    return _OF_PYTHON.get(grown.code) if grown.is_growing and not grown.which else None
