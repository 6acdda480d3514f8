"""What of a watch grows: every figure that may, with its verdict and the kind that it is.

The kinds are the codes ``memory.…`` of findings. One growth is told once: batches that the main
process keeps also fill ``/dev/shm``, and the device's cache reserves what tensors take.
"""

from __future__ import annotations

import msgspec

from feedrate.analysis import figures
from feedrate.analysis.bounded import bounded
from feedrate.analysis.coded import Limit, coded
from feedrate.analysis.counted import counts, counts_of_others, is_of_counted
from feedrate.analysis.figures import of_main, of_workers
from feedrate.analysis.filling import filling_cache
from feedrate.analysis.grown import MAIN, WORKER, Grown, of_bytes, of_counts
from feedrate.analysis.mapped import who_maps
from feedrate.analysis.others import of_others, staying
from feedrate.memory_records import GrowthCause, MemoryWatch

_MOST_OF_IT = 0.5
_PYTHONS = 0.2
"""Python's allocations explain less than this share of a growth in C."""


def everything(watch: MemoryWatch) -> tuple[Grown, ...]:
    """Return each figure that could be read, growing or not, each growth once."""
    found = each_figure(watch)
    return tuple(each for each in found if not is_of_counted(watch, each, found))


def each_figure(watch: MemoryWatch) -> tuple[Grown, ...]:
    """Return each figure that could be read, growing or not, as if it were the only one."""
    return tuple(
        each
        for look_at in (
            _main,
            _workers,
            _others,
            _kept_batches,
            counts,
            _processes,
            _shm,
            _device,
        )
        for each in look_at(watch)
    )


def _main(watch: MemoryWatch) -> list[Grown]:
    made = of_bytes(
        watch,
        "memory of the main process",
        of_main(figures.private),
        watch.room.memory,
        cause=_cause(watch, "main"),
        process=MAIN,
    )
    if made is not None and (ends := bounded(watch, made, MAIN)) is not None:
        return coded(watch, ends, "memory.bounded_cache", _memory(watch))
    cause = made.cause if made is not None else None
    return coded(watch, made, _code_of(cause, "memory.main_step_growth"), _memory(watch))


def _workers(watch: MemoryWatch) -> list[Grown]:
    figure = of_workers(figures.private)
    name, found = "memory of a worker", _cause(watch, "worker")
    made = of_bytes(watch, name, figure, watch.room.memory, cause=found, process=WORKER)
    if made is None:
        return []
    if (ends := bounded(watch, made, WORKER)) is not None:
        return coded(watch, ends, "memory.bounded_cache", _memory(watch))
    cause = made.cause
    code = _code_of(cause, "memory.worker_growth")
    curve = None if made.within_epoch else filling_cache(watch)
    if curve is not None:
        code = _code_of(cause, "memory.dataset_cache_growth")
        if made.growth.verdict in ("none", "undecided"):
            # It has filled by now: a copy of the dataset in each worker all the same.
            filled = msgspec.structs.replace(curve, remaining=0.0)
            levelled = msgspec.structs.replace(made.growth, verdict="levels_off", curve=filled)
            made = msgspec.structs.replace(made, growth=levelled)
    return coded(watch, made, code, _memory(watch))


def _others(watch: MemoryWatch) -> list[Grown]:
    """Return what other processes hold that stay: workers of other loaders, other programs."""
    found = []
    for program, pids in staying(watch).items():
        count, whose = len(pids), program or "a worker of another loader"
        held = of_others(figures.private, pids)
        name = f"memory of {whose}"
        memory = of_bytes(watch, name, held, watch.room.memory, processes=count)
        if program is not None:
            # A program goes up and down as it likes: no verdict waits until that is known.
            code = "memory.other_process_growth"
            found += [each for each in coded(watch, memory, code, _memory(watch)) if each.code]
            continue
        if memory is not None:
            memory = msgspec.structs.replace(memory, which=" of another loader")
        found += coded(watch, memory, "memory.worker_growth", _memory(watch))
        found += counts_of_others(watch, whose, pids)
    return found


def _kept_batches(watch: MemoryWatch) -> list[Grown]:
    figure = of_main(figures.shared_memory)
    name = "shared memory that the main process holds"
    made = of_bytes(watch, name, figure, watch.room.memory, process=MAIN)
    return coded(watch, made, "memory.main_step_growth", _memory(watch))


def _processes(watch: MemoryWatch) -> list[Grown]:
    limit = ("processes", None)
    made = of_counts(watch, "worker processes", figures.worker_count)
    programs = of_counts(watch, "other programs", figures.program_count)
    piled_up = coded(watch, programs, "memory.programs_pile_up", limit)
    # Programs come and go as they like: no verdict waits until that is known.
    return [
        *coded(watch, made, "memory.workers_pile_up", limit),
        *(each for each in piled_up if each.code),
    ]


def _shm(watch: MemoryWatch) -> list[Grown]:
    made = of_bytes(watch, "files in /dev/shm", figures.shm_bytes, watch.room.shm)
    kept = of_bytes(watch, "", of_main(figures.shared_memory), watch.room.memory)
    # What the main process maps is batches that it keeps, told as that.
    kept_rate = kept.growth.slope if kept is not None and kept.is_growing else 0.0
    if made is not None and 0 < _MOST_OF_IT * made.growth.slope <= kept_rate:
        made = None
    if made is not None and made.is_growing:
        made = msgspec.structs.replace(made, which=who_maps(watch, made))
    return coded(watch, made, "memory.shm_growth", ("/dev/shm", watch.room.shm))


def _device(watch: MemoryWatch) -> list[Grown]:
    left = watch.room.device
    tensors = of_bytes(watch, "device memory of tensors", figures.device_allocated, left)
    name = "device memory that torch's cache reserves"
    cache = of_bytes(watch, name, figures.device_reserved, left)
    pinned = of_bytes(watch, "pinned host memory", figures.pinned, watch.room.memory)
    limit = ("device memory", watch.room.device)
    found = coded(watch, tensors, "memory.device_growth", limit)
    if tensors is None or not tensors.is_growing:
        found += coded(watch, cache, "memory.device_cache", limit)
    return found + coded(watch, pinned, "memory.pinned_cache", _memory(watch))


def _code_of(cause: GrowthCause | None, otherwise: str) -> str:
    """Return the kind that the second pass tells, or the one that the process tells."""
    if cause is None or cause.grown <= 0:
        return otherwise
    if cause.collected >= _MOST_OF_IT * cause.grown:
        return "memory.cycles"
    if cause.trimmed >= _MOST_OF_IT * cause.grown:
        return "memory.allocator_pages"
    if cause.traced < _PYTHONS * cause.grown:
        return "memory.native_growth"
    return "memory.dataset_cache_growth" if cause.holder.startswith("dataset") else otherwise


def is_native(cause: GrowthCause) -> bool:
    """Tell whether a process grows by what neither Python objects nor its allocator explain."""
    return _code_of(cause, "") == "memory.native_growth"


def _cause(watch: MemoryWatch, process: str) -> GrowthCause | None:
    return next((cause for cause in watch.causes if cause.process == process), None)


def _memory(watch: MemoryWatch) -> Limit:
    return ("memory", watch.room.memory)
