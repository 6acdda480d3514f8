"""What was read of memory: of one process, of all at one moment, and over a whole watch.

Units: bytes and seconds. Nothing here is computed: what follows from the readings (whether
something grows, of what kind it is, when a limit is reached) is in `feedrate.analysis`.
"""

from __future__ import annotations

import msgspec


class MemoryReading(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one process, or of several added up. ``None`` where the platform does not tell.

    Only ``pss`` and ``uss`` may be added over processes: ``rss`` counts shared pages each time.
    """

    rss: int
    pss: int | None = None
    uss: int | None = None
    anonymous: int | None = None
    private_dirty: int | None = None
    shared_dirty: int | None = None
    pss_file: int | None = None
    pss_shmem: int | None = None


class MemorySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the main process and its workers, ``at`` seconds after the child's start."""

    at: float
    main: MemoryReading
    workers: MemoryReading | None
    worker_count: int
    shm_bytes: int | None
    main_descriptors: int | None
    worker_descriptors: int | None


class ProcessReading(msgspec.Struct, frozen=True, kw_only=True):
    """One process at one moment. ``None`` where the platform does not tell.

    ``swapped`` are anonymous bytes that lie in swap (Swap of smaps_rollup): a leak goes on there.
    ``virtual`` is the address space (VMS), most of which takes no memory; ``shmem`` what it maps of
    shared memory, shared or not (RssShmem of status). A quick reading has no more of ``memory``
    than ``rss`` and ``anonymous``, and no ``touched``: the bytes of all pages that it has touched
    or copied anew (minor faults). ``program`` is the name of what it runs where that is another
    program than a worker's, as "wandb-core" or "ffmpeg".
    """

    pid: int
    memory: MemoryReading
    swapped: int = 0
    virtual: int | None = None
    shmem: int | None = None
    descriptors: int | None = None
    threads: int | None = None
    touched: int | None = None
    program: str | None = None


class DeviceReading(msgspec.Struct, frozen=True, kw_only=True):
    """torch's memory on all accelerators: what tensors hold, and what its caches keep in all.

    ``pinned`` is what torch's cache of page-locked host memory holds, ``None`` where it does not
    tell.
    """

    allocated: int
    reserved: int
    pinned: int | None = None


class MemoryLook(msgspec.Struct, frozen=True, kw_only=True):
    """Everything read at one moment of a watch.

    ``epoch`` counts from 0. ``phase`` is the share of that epoch's batches that the loop had taken,
    0 to 1: looks at the same phase of different epochs can be compared. ``items`` counts all that
    the loop had taken by then. ``workers`` are those of the watched loader, ``others`` what else
    the main process has started: workers of other loaders, or of iterators that are kept, and other
    programs. ``shm_bytes`` and ``shm_files`` are of ``/dev/shm`` as a whole, ``shm_named`` what the
    user's files there take: what has no name any more, as batches on their way, is not among it.
    ``page_cache`` is the machine's (Cached of ``/proc/meminfo``), ``available`` its MemAvailable.
    """

    at: float
    epoch: int
    phase: float
    items: int
    main: ProcessReading
    workers: tuple[ProcessReading, ...] = ()
    others: tuple[ProcessReading, ...] = ()
    shm_bytes: int | None = None
    shm_files: int | None = None
    shm_named: int | None = None
    device: DeviceReading | None = None
    page_cache: int | None = None
    available: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.phase <= 1:
            raise ValueError(f"a phase is a share of the epoch from 0 to 1, not {self.phase}")


class MemoryRoom(msgspec.Struct, frozen=True, kw_only=True):
    """What was left at the end of a watch before something is refused or killed.

    ``None`` where there is no limit or it is not known. ``memory_source`` says what bounds
    ``memory``: "available memory" or "cgroup limit". ``worker_descriptors`` and
    ``main_descriptors`` are the soft limits themselves, of each process.
    """

    memory: int | None = None
    memory_source: str = "available memory"
    shm: int | None = None
    device: int | None = None
    main_descriptors: int | None = None
    worker_descriptors: int | None = None


class BatchCarried(msgspec.Struct, frozen=True, kw_only=True):
    """What tensors take along that come from a worker: the whole storages that they look into.

    ``view_bytes`` and ``storage_bytes`` are of the batch that takes most along: of its tensors, and
    of the ``at_once`` different storages behind them. ``storages`` is how many different ones there
    were in the ``batches`` that were looked at, of those that take much along.
    """

    view_bytes: int
    storage_bytes: int
    at_once: int
    storages: int
    batches: int


class IndexList(msgspec.Struct, frozen=True, kw_only=True):
    """A list of indices that a sampler has made: how many there are, and their bytes."""

    count: int
    list_bytes: int


class GrowthCause(msgspec.Struct, frozen=True, kw_only=True):
    """What the second pass found inside a process that grows.

    ``process`` is "main" or "worker". ``grown`` is what its memory grew by over the pass,
    ``traced`` the part of that which Python's allocations explain (tracemalloc), ``collected`` what
    a collection of reference cycles gave back at the end, ``trimmed`` what the allocator gave back
    when asked to. ``file`` and ``line`` are where most of it was allocated, ``type_name`` and
    ``count`` the objects that grew most in number, ``holder`` what holds them, outermost first, as
    "dataset.cache". ``walked`` is the share of the new objects that was looked at, less than 1
    where there were too many for the time.
    """

    process: str
    grown: int
    traced: int = 0
    collected: int = 0
    trimmed: int = 0
    file: str | None = None
    line: int | None = None
    type_name: str = ""
    count: int = 0
    holder: str = ""
    walked: float = 1.0


SOME_ITEMS = 1000
"""What a cause counts by where no epoch came to its end."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Python objects that grow in number or size in one process, as the second pass found them.

    ``process`` is "main" or "worker 0" (the worker's number). ``file`` and ``line`` are where they
    are allocated, ``type_name`` what they are; ``None`` where that is not known. ``count`` is how
    many more there are with each epoch, ``bytes_per_epoch`` what they take; with each `SOME_ITEMS`
    items of the loop where no epoch came to its end. ``held_by`` is the chain that keeps them, from
    a root on, as ("module train.CACHE", "dict"), and ``most`` how many things it takes before it
    drops the oldest, ``None`` where it has no limit.
    """

    process: str
    file: str | None = None
    line: int | None = None
    type_name: str | None = None
    count: float = 0.0
    bytes_per_epoch: float = 0.0
    held_by: tuple[str, ...] = ()
    most: int | None = None


class MemoryWatch(msgspec.Struct, frozen=True, kw_only=True):
    """One watched run of a loop.

    ``complete_epochs`` is how many came to their end while it was looked, ``rested_epochs`` how
    many more did after that, when all was known. ``dataset_length`` is the number of distinct
    items, ``None`` where unknown. ``spent_seconds`` is what the looks took, of ``seconds`` in all.
    ``causes`` are what the second pass found of each process that grows, ``objects`` the Python
    objects that grow in it, those that take most first. ``carried`` is what the tensors of batches
    take along from workers, ``indices`` the longest list that the sampler holds, each ``None``
    where there is nothing of the kind. ``readable`` is the size of the Python objects that forked
    workers may read, in bytes: the dataset's and its module's; ``None`` where it is not known.
    """

    looks: tuple[MemoryLook, ...]
    complete_epochs: int
    num_workers: int
    start_method: str | None = None
    persistent_workers: bool = False
    dataset_length: int | None = None
    room: MemoryRoom = MemoryRoom()
    causes: tuple[GrowthCause, ...] = ()
    objects: tuple[Cause, ...] = ()
    carried: BatchCarried | None = None
    indices: IndexList | None = None
    readable: int | None = None
    seconds: float = 0.0
    spent_seconds: float = 0.0
    rested_epochs: int = 0
