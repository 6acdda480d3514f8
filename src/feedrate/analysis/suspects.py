"""Which processes a second pass has to look into, for the first has told only that they grow."""

from __future__ import annotations

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
}
"""The kinds of growth that Python objects may explain, and a process that shows it."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A process that grows: "main", or "worker 0" for any of the workers.

    ``expected`` is by how many bytes, with each of its own items: 0 where it has stopped by now, as
    a cache does that is full; ``None`` where only its descriptors grow.
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
    units: dict[str, set[str]] = {}
    for each in everything(watch):
        process = _process(each)
        if process is not None:
            units.setdefault(process, set()).add(each.unit)
    # What open files take is not told as a growth of memory, but what is found is held against it.
    return tuple(
        Suspect(process=process, expected=rates.get(process, 0.0 if "bytes" in told else None))
        for process, told in units.items()
    )


def _process(grown: Grown) -> str | None:
    """Return the process to be looked into; none of another loader's, where the pass cannot be."""
    return _OF_PYTHON.get(grown.code) if grown.is_growing and not grown.which else None
