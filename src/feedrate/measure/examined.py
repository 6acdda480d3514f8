"""What examining a target finds out, part by part, as the child sends it: frozen and without torch.

Each part is sent as soon as it is known, so that a child that dies or hangs has told what came
before. Times are seconds, sizes bytes. What was not tried is said too, with the reason.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from feedrate.records import LoaderFacts, RunError


class Setup(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How the loader is made, beyond `LoaderFacts`.

    ``cpus`` is what one of the ``ranks`` processes on this host may use. ``sampler`` is the
    sampler's type, ``draws`` how many indices it announces. ``collate`` and ``init`` are the names
    of what the user gave, "" where nothing was. ``batched`` tells whether the dataset has
    ``__getitems__``.
    """

    facts: LoaderFacts
    cpus: float
    ranks: int = 1
    accelerator: bool = False
    sampler: str = ""
    draws: int | None = None
    collate: str = ""
    init: str = ""
    drop_last: bool = False
    batched: bool = False
    elastic: bool = False
    default_start_method: str = ""
    unguarded: str = ""


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
    which the outer one hides, is asked for a batch.
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


class Loop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loader as it is, iterated for a while, with the step where there is one.

    ``startup`` is the time from ``iter()`` to the first batch; ``seconds``, ``items`` and
    ``batches`` count from there to where the first epoch ended or was left. ``epoch_seconds`` are
    whole epochs, with their start. ``worker_threads`` is the most threads that a worker had,
    ``worker_cpu_share`` the CPU seconds that one took each second.
    ``later_startup`` is the start of a second epoch.
    """

    startup: float
    batches: int
    items: int
    seconds: float
    waits: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()
    epoch_seconds: tuple[float, ...] = ()
    epoch_items: tuple[int, ...] = ()
    epoch_batches: tuple[int, ...] = ()
    batch_bytes: int = 0
    batch_tensors: int = 0
    leaves: tuple[Leaf, ...] = ()
    has_step: bool = False
    worker_threads: int | None = None
    worker_cpu_share: float | None = None
    later_startup: float | None = None


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loop failed, died or hung, after so many batches; ``busy`` where it still computed.

    ``seconds`` is how long nothing came, where it hung.
    """

    error: RunError
    batches: int
    seconds: float = 0.0
    busy: bool = False
    exit_codes: tuple[int, ...] = ()


Question = Literal["no_workers", "workers", "fewer", "more", "one_thread", "less_prefetch", "kept"]


class Duel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loader against itself with one thing changed: items/s of alternating short windows.

    ``epochs`` tells that each window is a whole epoch with its start, where the user's are that
    short. ``value`` is what the changed setting was set to.
    """

    question: Question
    value: int
    own: tuple[float, ...]
    other: tuple[float, ...]
    epochs: bool = False

    @property
    def gain(self) -> float:
        """Return the median rate of the other over that of the own."""
        return _median(self.other) / _median(self.own)

    @property
    def is_clear(self) -> bool:
        """Tell whether each window of the other was faster than each of the own."""
        return min(self.other) > max(self.own)


def _median(values: tuple[float, ...]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Starts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the start of workers takes: as it is, with a dataset of nothing, and when kept."""

    own: float
    empty: float | None = None
    kept: float | None = None


class SamplerCost(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first index of an epoch: how long it takes, and the memory that it takes."""

    seconds: float
    bytes: int


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


class Stale(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Attributes that ``method`` changed, and those of them that kept workers did not see."""

    method: str
    changed: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How often a script began to iterate its loader, for how many batches in all.

    ``seconds`` is what it took on the average from there to the first batch.
    """

    times: int
    batches: int
    seconds: float


class Untried(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that was not tried, and why."""

    what: str
    why: str


Part = (
    Setup
    | Pickled
    | Objects
    | Handles
    | Items
    | Growth
    | BadItem
    | Loop
    | Broken
    | Duel
    | Starts
    | SamplerCost
    | Randomness
    | Stream
    | Stale
    | Begun
    | Untried
)
