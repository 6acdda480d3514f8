"""The catalogue: what torch, Python and others print when data loading fails, and what it means.

Each module has the entries of one family; their order is that of likelihood where one line has
several causes. Every entry has a standard text in ``tests/doctor/standard_texts``.
"""

from __future__ import annotations

from feedrate.doctor.entry import Entry
from feedrate.doctor.messages import (
    collating,
    connections,
    deaths,
    descriptors,
    device,
    endings,
    files,
    locks,
    memory,
    pickling,
    remarks,
    shared_files,
    shared_memory,
    starting,
)

CATALOGUE: tuple[Entry, ...] = (
    *deaths.ENTRIES,
    *endings.ENTRIES,
    *shared_memory.ENTRIES,
    *descriptors.ENTRIES,
    *memory.ENTRIES,
    *device.ENTRIES,
    *locks.ENTRIES,
    *pickling.ENTRIES,
    *starting.ENTRIES,
    *collating.ENTRIES,
    *shared_files.ENTRIES,
    *files.ENTRIES,
    *connections.ENTRIES,
    *remarks.ENTRIES,
)
