"""What a process has ever more of, open files and threads; and what of its memory those take."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from feedrate.analysis import figures
from feedrate.analysis.coded import coded
from feedrate.analysis.figures import OfProcess, of_main, of_workers
from feedrate.analysis.grown import MAIN, WORKER, Grown, of_counts
from feedrate.analysis.opened import increasing, is_same_line
from feedrate.analysis.others import of_others
from feedrate.memory_records import GrowthCause, MemoryWatch

_MOST_OF_IT = 0.5


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of what is counted.

    Attributes:
        name: what they are called.
        code: of a growth, before "_main" or "_worker".
        figure: how many a process has.
        bytes: what one of them takes at most of its process's memory.
        memory: the codes of a growth in memory that may be nothing else.
    """

    name: str
    code: str
    figure: OfProcess
    bytes: int
    memory: frozenset[str]


_OF_A_PROCESS = frozenset({"memory.main_step_growth", "memory.worker_growth"})
_FILES = _Kind(
    name="descriptors",
    code="memory.fd_growth",
    figure=figures.descriptors,
    bytes=16 * 1024,  # its object and its buffer are a few kibibytes
    memory=_OF_A_PROCESS,
)
_THREADS = _Kind(
    name="threads",
    code="memory.thread_growth",
    figure=figures.threads,
    bytes=256 * 1024,  # what it has touched of its stack, and its arena of the C allocator
    memory=_OF_A_PROCESS | {"memory.native_growth"},
)
_KINDS = {
    f"{kind.code}_{process}": kind for kind in (_FILES, _THREADS) for process in ("main", "worker")
}


def counts(watch: MemoryWatch) -> list[Grown]:
    """Return the descriptors and threads of the main process and of the loader's workers."""
    found = []
    for kind in (_FILES, _THREADS):
        for process, whose, figure in (
            (MAIN, "the main process", of_main(kind.figure)),
            (WORKER, "a worker", of_workers(kind.figure)),
        ):
            made = of_counts(watch, f"{kind.name} of {whose}", figure, process=process)
            found += _coded(watch, made, kind)
    return found


def counts_of_others(watch: MemoryWatch, whose: str, pids: frozenset[int]) -> list[Grown]:
    """Return the same of workers of another loader."""
    found = []
    for kind in (_FILES, _THREADS):
        figure = of_others(kind.figure, pids)
        made = of_counts(watch, f"{kind.name} of {whose}", figure, processes=len(pids))
        if made is not None:
            made = msgspec.structs.replace(made, which=" of another loader")
        found += _coded(watch, made, kind)
    return found


def _coded(watch: MemoryWatch, made: Grown | None, kind: _Kind) -> list[Grown]:
    """Return a figure with what the second pass found; a limit is each process's own."""
    if made is None:
        return []
    if made.is_growing and made.process:
        each_epoch = (made.per_epoch or 0.0) / max(1, made.processes)
        made = msgspec.structs.replace(made, cause=increasing(watch, made.process, each_epoch))
    is_main = made.process == MAIN
    most = None
    if kind is _FILES:
        most = watch.room.main_descriptors if is_main else watch.room.worker_descriptors
    left = None if most is None else most - round(made.series.values[-1])
    code = f"{kind.code}_{'main' if is_main else 'worker'}"
    return coded(watch, made, code, (kind.name, left), each=True)


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
    kind = _KINDS.get(other.code)
    if kind is None or made.code not in kind.memory:
        return False
    if (made.process, made.which) != (other.process, other.which):
        return False
    explained = made.cause is None or is_same_line(made.cause, other.cause)
    is_native = made.code == "memory.native_growth"
    return (
        made.growth.slope <= kind.bytes * other.growth.slope
        and (explained or is_native)
        and not _has_more(watch, made, other.cause)
    )


def _has_more(watch: MemoryWatch, made: Grown, counted: GrowthCause | None) -> bool:
    """Tell whether other objects than those that are counted are most of a process's growth."""
    others = sum(
        each.bytes_per_epoch
        for each in watch.objects
        # of workers of other loaders the second pass saw nothing
        if each.process == made.process
        and (counted is None or (each.file, each.line) != (counted.file, counted.line))
    )
    return others * max(1, made.processes) > _MOST_OF_IT * (made.per_epoch or math.inf)
