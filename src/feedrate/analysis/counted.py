"""What a process has ever more of, open files and threads; and what of its memory those take."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from feedrate.analysis import figures
from feedrate.analysis.coded import Limit, coded
from feedrate.analysis.figures import of_main, of_workers
from feedrate.analysis.grown import Grown, of_counts
from feedrate.analysis.opened import increasing, is_same_line
from feedrate.analysis.others import of_others
from feedrate.memory_records import GrowthCause, MemoryWatch

_MOST_OF_IT = 0.5


class _Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of what is counted: the bytes that one of them takes at most, and how they are told.

    ``kinds`` are those of the growth in memory that may be nothing else.
    """

    bytes: int
    kinds: frozenset[str]


_FILES = _Counted(
    bytes=16 * 1024,  # its object and its buffer are a few kibibytes
    kinds=frozenset({"memory.main_step_growth", "memory.worker_growth"}),
)
_THREADS = _Counted(
    bytes=256 * 1024,  # what it has touched of its stack, and its arena of the C allocator
    kinds=_FILES.kinds | {"memory.native_growth"},
)
_COUNTED = {
    "memory.fd_growth_main": _FILES,
    "memory.fd_growth_worker": _FILES,
    "memory.thread_growth_main": _THREADS,
    "memory.thread_growth_worker": _THREADS,
}


def counts(watch: MemoryWatch) -> list[Grown]:
    """Return the descriptors and threads of the main process and of the loader's workers."""
    main = of_counts(watch, "descriptors of the main process", of_main(figures.descriptors))
    worker = of_counts(
        watch, "descriptors of a worker", of_workers(figures.descriptors), in_workers=True
    )
    threads = of_counts(watch, "threads of the main process", of_main(figures.threads))
    of_worker = of_counts(
        watch, "threads of a worker", of_workers(figures.threads), in_workers=True
    )
    room = watch.room
    return [
        *_of_each(watch, main, "memory.fd_growth_main", room.main_descriptors),
        *_of_each(watch, worker, "memory.fd_growth_worker", room.worker_descriptors),
        *_of_each(watch, threads, "memory.thread_growth_main"),
        *_of_each(watch, of_worker, "memory.thread_growth_worker"),
    ]


def counts_of_others(watch: MemoryWatch, whose: str, pids: frozenset[int]) -> list[Grown]:
    """Return the same of workers of another loader."""
    room = watch.room.worker_descriptors
    found = []
    for name, figure, code, limit in (
        ("descriptors", figures.descriptors, "memory.fd_growth_worker", room),
        ("threads", figures.threads, "memory.thread_growth_worker", None),
    ):
        made = of_counts(watch, f"{name} of {whose}", of_others(figure, pids), processes=len(pids))
        if made is not None:
            made = msgspec.structs.replace(made, which=" of another loader")
        found += coded(watch, made, code, _left(made, name, limit), each=True)
    return found


def is_of_counted(watch: MemoryWatch, made: Grown, among: Collection[Grown]) -> bool:
    """Tell whether a figure that grows is told by another one, which is counted.

    A process's memory, where it grows by no more than the files take that it leaves open, or the
    threads that it leaves running; its threads, where those are of iterators that are kept.
    """
    if not made.is_growing:
        return False
    if made.code == "memory.thread_growth_main":
        return any(each.code == "memory.workers_pile_up" for each in among)
    return any(_takes(watch, made, each) for each in among if each.is_growing)


def _takes(watch: MemoryWatch, made: Grown, other: Grown) -> bool:
    counted = _COUNTED.get(other.code)
    if counted is None or made.code not in counted.kinds or _whose(made) != _whose(other):
        return False
    explained = made.cause is None or is_same_line(made.cause, other.cause)
    is_native = made.code == "memory.native_growth"
    return (
        made.growth.slope <= counted.bytes * other.growth.slope
        and (explained or is_native)
        and not _has_more(watch, made, other.cause)
    )


def _whose(made: Grown) -> tuple[str, str]:
    """Return the process that a figure is of, by its name, and what tells that apart."""
    is_main = made.figure.endswith(("the main process", "the main process holds"))
    return ("main" if is_main else made.figure.partition(" of ")[2]), made.which


def _has_more(watch: MemoryWatch, made: Grown, counted: GrowthCause | None) -> bool:
    """Tell whether other objects than those that are counted are most of a process's growth."""
    process = "main" if _whose(made)[0] == "main" else "worker 0"
    others = sum(
        each.bytes_per_epoch
        for each in watch.objects
        if not made.which  # the second pass saw nothing of other loaders' workers
        and each.process == process
        and (counted is None or (each.file, each.line) != (counted.file, counted.line))
    )
    return others * max(1, made.processes) > _MOST_OF_IT * (made.per_epoch or math.inf)


def _of_each(
    watch: MemoryWatch, made: Grown | None, code: str, limit: int | None = None
) -> list[Grown]:
    """Return the figure, with a limit of its own in each process."""
    name = "threads" if "thread" in code else "descriptors"
    if made is not None and made.is_growing:
        process = "main" if code.endswith("_main") else "worker 0"
        each_epoch = (made.per_epoch or 0.0) / max(1, made.processes)
        made = msgspec.structs.replace(made, cause=increasing(watch, process, each_epoch))
    return coded(watch, made, code, _left(made, name, limit), each=True)


def _left(made: Grown | None, name: str, limit: int | None) -> Limit:
    left = None if limit is None or made is None else limit - round(made.series.values[-1])
    return (name, left)
