"""What is found out about a dataset and its items. Times are seconds, sizes bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

MOST_FILES = 8
"""So many of the files that reading items opened are kept."""


class Unpicklable(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that cannot be pickled: where it hangs, its type, and what pickle says."""

    path: str
    kind: str
    error: str


class Pickled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a spawned worker is given, pickled once.

    ``bytes`` is the size, without tensors, which are shared; ``None`` where it failed.
    """

    bytes: int | None
    seconds: float
    failed: tuple[Unpicklable, ...] = ()


class Objects(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The Python objects that the dataset holds: those whose reading counts a reference.

    ``bytes`` is their own size, without the buffers of arrays. ``whole`` is false where there were
    too many to be counted. ``path`` is the attribute below which most of them are.
    """

    count: int
    bytes: int
    whole: bool
    path: str = ""
    path_bytes: int = 0


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """Something open that the dataset or the collate function holds, and where it hangs."""

    path: str
    kind: str
    family: Literal["file", "hdf5", "lmdb", "archive", "socket", "database", "lock", "cuda"]


class Handles(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All of them, before any worker is started."""

    handles: tuple[Handle, ...] = ()


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor or array of an item or batch.

    ``storage_bytes`` is what travels with it. ``values`` tells of floats that are whole numbers
    from 0 to 255 ("bytes"), or those divided by 255 ("unit").
    """

    path: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    storage_bytes: int
    values: Literal["", "bytes", "unit"] = ""


class OddItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that is built otherwise than the first one was."""

    index: int
    path: str
    first: str
    found: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A call that takes most of an item's time and could serve many: its name and its share."""

    name: str
    share: float
    per_item: float


class Items(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Items read one by one in a process of their own.

    ``cpu_threads`` is the CPU time of all threads over that of the one that reads.
    ``longest_again`` is what the worst item takes when it is read once more.
    ``cpu_share`` is CPU time over wall time, of all threads; time in which other programs had the
    CPUs is left out. ``descriptors`` is by how many the
    open ones rose. ``beyond`` tells that the last index that ``len()`` promises raised an
    IndexError. ``batched_seconds`` is what an item takes where an inner dataset's ``__getitems__``,
    which the outer one hides, is asked for a batch. ``collate_seconds`` is what the collate
    function takes for ``collated`` of the items, ``collate_default`` what torch's own does where it
    makes the same of them. ``files`` are some of those that reading them opened.
    """

    count: int
    median: float
    p99: float
    longest: float
    worst: int
    cpu_share: float
    cpu_threads: float = 1.0
    longest_again: float = 0.0
    leaves: tuple[Leaf, ...] = ()
    odd: OddItem | None = None
    descriptors: int = 0
    beyond: str = ""
    request: Request | None = None
    batched_seconds: float | None = None
    batched_by: str = ""
    collate_seconds: float | None = None
    collate_default: float | None = None
    collated: int = 0
    files: tuple[str, ...] = ()


LEAST_KEPT = 2048
"""Bytes that an item keeps at least where reading items grows memory."""
LEAST_ELSEWHERE = 16 * LEAST_KEPT
"""And where no container grows with the items."""


class Growth(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Memory that reading different items takes and keeps.

    ``early`` and ``late`` are the bytes an item took in the first and in the last half. ``path``
    is the container that grew with them, "" where none was seen. ``all_read`` tells that there are
    no more items. ``again`` and ``first`` are the seconds of an item read a second and a first
    time.
    """

    items: int
    bytes: int
    early: float
    late: float
    path: str = ""
    entries: int = 0
    all_read: bool = False
    first: float = 0.0
    again: float = 0.0


class BadItem(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An item that failed when it was read alone.

    ``end`` is how: it "raised", the process "died" or it "hung". ``text`` is the traceback, or the
    name of the signal.
    """

    index: int
    end: Literal["raised", "died", "hung"]
    headline: str = ""
    text: str = ""
    seconds: float = 0.0


class Randomness(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The same items drawn by two workers, in two epochs, twice each.

    ``sources`` are the generators whose state an item changes. ``varying`` of the ``items`` came
    out differently the second time; ``workers_same`` and ``epochs_same`` of those were the same in
    both workers, and in both epochs.
    """

    sources: tuple[str, ...]
    items: int = 0
    varying: int = 0
    workers_same: int = 0
    epochs_same: int = 0
    kept: bool = False


class Stream(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An IterableDataset iterated in one process, and by workers.

    ``single`` is how many items came in one process, ``shares`` how many from each worker;
    ``whole`` tells that both came to their end. ``repeated`` is how many of the ``compared`` items
    of one worker came from another one too.
    """

    single: int
    shares: tuple[int, ...]
    whole: bool
    repeated: int = 0
    compared: int = 0
    distinct: int = 0
