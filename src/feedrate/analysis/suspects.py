"""Which processes a second pass has to look into, for the first has told only that they grow."""

from __future__ import annotations

import msgspec

from feedrate.analysis.growing import everything
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
    a cache does that is full; ``None`` where it is descriptors that grow.
    """

    process: str
    expected: float | None


def suspects(watch: MemoryWatch) -> tuple[Suspect, ...]:
    """Return the processes that grow in a way that Python objects may explain, each once."""
    found: dict[str, Suspect] = {}
    for each in everything(watch) if watch.looks else ():
        # The second pass looks into the watched loader's workers, and not into another one's.
        process = _OF_PYTHON.get(each.code) if each.is_growing and not each.which else None
        if process is not None:
            rate = each.per_item if each.growth.verdict == "grows" else 0.0
            expected = rate if each.unit == "bytes" else None
            found.setdefault(process, Suspect(process=process, expected=expected))
    return tuple(found.values())
