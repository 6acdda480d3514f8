"""What of a watch grows: every figure that may, with its verdict and the kind that it is.

The kinds are the codes ``memory.…`` of findings. One growth is told once: batches that the main
process keeps also fill ``/dev/shm``, and the device's cache reserves what tensors take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from feedrate.analysis import figures
from feedrate.analysis.bounded import bounded
from feedrate.analysis.figures import of_main, of_workers
from feedrate.analysis.filling import filling_cache
from feedrate.analysis.forecast import forecast
from feedrate.analysis.grown import Grown, of_bytes, of_counts
from feedrate.analysis.mapped import who_maps
from feedrate.analysis.opened import increasing, is_same_line
from feedrate.analysis.others import of_others, staying
from feedrate.analysis.stats import Interval
from feedrate.memory_records import GrowthCause, MemoryWatch

_MOST_OF_IT = 0.5
_PYTHONS = 0.2
"""Python's allocations explain less than this share of a growth in C."""
_OPEN_FILE = 16 * 1024
"""An open file takes a few kibibytes of memory: its object and its buffer."""

_NEED_A_CAUSE = frozenset(
    {"memory.main_step_growth", "memory.worker_growth", "memory.other_process_growth"}
)
"""Where these level off, and nothing tells what grows, it is as likely a warm-up."""

Limit = tuple[str, int | None]
"""A limit's name, and what is left until then."""


def everything(watch: MemoryWatch) -> tuple[Grown, ...]:
    """Return each figure that could be read, growing or not; what open files take is not told."""
    found = each_figure(watch)
    return tuple(each for each in found if not _is_of_open_files(watch, each, found))


def each_figure(watch: MemoryWatch) -> tuple[Grown, ...]:
    """Return each figure that could be read, growing or not, as if it were the only one."""
    return tuple(
        each
        for look_at in (
            _main,
            _workers,
            _others,
            _kept_batches,
            _descriptors,
            _processes,
            _shm,
            _device,
        )
        for each in look_at(watch)
    )


def _is_of_open_files(watch: MemoryWatch, made: Grown, among: Iterable[Grown]) -> bool:
    """Tell whether a process grows by no more than what the files take that it leaves open."""
    opening = {
        "memory.main_step_growth": "memory.fd_growth_main",
        "memory.worker_growth": "memory.fd_growth_worker",
    }
    return any(
        made.growth.slope <= _OPEN_FILE * other.growth.slope
        and (made.cause is None or is_same_line(made.cause, other.cause))
        and not _has_more(watch, made, other.cause)
        for other in among
        if made.is_growing and (other.code, other.which) == (opening.get(made.code), made.which)
    )


def _has_more(watch: MemoryWatch, made: Grown, opener: GrowthCause | None) -> bool:
    """Tell whether other objects than those that hold files are most of a process's growth."""
    process = "main" if made.code == "memory.main_step_growth" else "worker 0"
    others = sum(
        each.bytes_per_epoch
        for each in watch.objects
        if not made.which  # the second pass saw nothing of other loaders' workers
        and each.process == process
        and (opener is None or (each.file, each.line) != (opener.file, opener.line))
    )
    return others * max(1, made.processes) > _MOST_OF_IT * (made.per_epoch or math.inf)


def _main(watch: MemoryWatch) -> list[Grown]:
    made = of_bytes(
        watch,
        "memory of the main process",
        of_main(figures.private),
        watch.room.memory,
        cause=_cause(watch, "main"),
    )
    if made is not None and (ends := bounded(watch, made, "main")) is not None:
        return _coded(watch, ends, "memory.bounded_cache", _memory(watch))
    cause = made.cause if made is not None else None
    return _coded(watch, made, _code_of(cause, "memory.main_step_growth"), _memory(watch))


def _workers(watch: MemoryWatch) -> list[Grown]:
    figure = of_workers(figures.private)
    name, found = "memory of a worker", _cause(watch, "worker")
    made = of_bytes(watch, name, figure, watch.room.memory, cause=found, in_workers=True)
    if made is None:
        return []
    if (ends := bounded(watch, made, "worker 0")) is not None:
        return _coded(watch, ends, "memory.bounded_cache", _memory(watch))
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
    return _coded(watch, made, code, _memory(watch))


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
            found += [each for each in _coded(watch, memory, code, _memory(watch)) if each.code]
            continue
        opened = of_others(figures.descriptors, pids)
        files = of_counts(watch, f"descriptors of {whose}", opened, processes=count)
        found += _coded(watch, _of_another(memory), "memory.worker_growth", _memory(watch))
        limit = _descriptors_left(files, watch.room.worker_descriptors)
        found += _coded(watch, _of_another(files), "memory.fd_growth_worker", limit, each=True)
    return found


def _of_another(made: Grown | None) -> Grown | None:
    return None if made is None else msgspec.structs.replace(made, which=" of another loader")


def _kept_batches(watch: MemoryWatch) -> list[Grown]:
    figure = of_main(figures.shared_memory)
    name = "shared memory that the main process holds"
    made = of_bytes(watch, name, figure, watch.room.memory)
    return _coded(watch, made, "memory.main_step_growth", _memory(watch))


def _descriptors(watch: MemoryWatch) -> list[Grown]:
    main = of_counts(watch, "descriptors of the main process", of_main(figures.descriptors))
    worker = of_counts(
        watch, "descriptors of a worker", of_workers(figures.descriptors), in_workers=True
    )
    room = watch.room
    return [
        *_of_each(watch, main, "memory.fd_growth_main", room.main_descriptors),
        *_of_each(watch, worker, "memory.fd_growth_worker", room.worker_descriptors),
    ]


def _of_each(watch: MemoryWatch, made: Grown | None, code: str, limit: int | None) -> list[Grown]:
    """Return the figure that has a limit of its own in each process."""
    if made is not None and made.is_growing:
        process = "main" if code == "memory.fd_growth_main" else "worker 0"
        each_epoch = (made.per_epoch or 0.0) / max(1, made.processes)
        made = msgspec.structs.replace(made, cause=increasing(watch, process, each_epoch))
    return _coded(watch, made, code, _descriptors_left(made, limit), each=True)


def _descriptors_left(made: Grown | None, limit: int | None) -> Limit:
    left = None if limit is None or made is None else limit - round(made.series.values[-1])
    return ("descriptors", left)


def _processes(watch: MemoryWatch) -> list[Grown]:
    made = of_counts(watch, "worker processes", figures.worker_count)
    return _coded(watch, made, "memory.workers_pile_up", ("processes", None))


def _shm(watch: MemoryWatch) -> list[Grown]:
    made = of_bytes(watch, "files in /dev/shm", figures.shm_bytes, watch.room.shm)
    kept = of_bytes(watch, "", of_main(figures.shared_memory), watch.room.memory)
    # What the main process maps is batches that it keeps, told as that.
    kept_rate = kept.growth.slope if kept is not None and kept.is_growing else 0.0
    if made is not None and 0 < _MOST_OF_IT * made.growth.slope <= kept_rate:
        made = None
    if made is not None and made.is_growing:
        made = msgspec.structs.replace(made, which=who_maps(watch, made))
    return _coded(watch, made, "memory.shm_growth", ("/dev/shm", watch.room.shm))


def _device(watch: MemoryWatch) -> list[Grown]:
    left = watch.room.device
    tensors = of_bytes(watch, "device memory of tensors", figures.device_allocated, left)
    name = "device memory that torch's cache reserves"
    cache = of_bytes(watch, name, figures.device_reserved, left)
    pinned = of_bytes(watch, "pinned host memory", figures.pinned, watch.room.memory)
    limit = ("device memory", watch.room.device)
    found = _coded(watch, tensors, "memory.device_growth", limit)
    if tensors is None or not tensors.is_growing:
        found += _coded(watch, cache, "memory.device_cache", limit)
    return found + _coded(watch, pinned, "memory.pinned_cache", _memory(watch))


def _coded(
    watch: MemoryWatch, made: Grown | None, code: str, limit: Limit, *, each: bool = False
) -> list[Grown]:
    """Return the figure with its kind and forecast, if it grows; as it is if it does not.

    ``each`` says that the limit holds for each process, and not for all together.
    """
    if made is None:
        return []
    if not made.is_growing:
        return [made]
    share = made.processes if each else 1
    interval = Interval(low=made.interval.low / share, high=made.interval.high / share)
    if made.growth.verdict == "levels_off" and made.cause is None and code in _NEED_A_CAUSE:
        code = "memory.warm_up"
    when = None
    if made.growth.verdict == "grows" and not made.within_epoch:
        when = forecast(watch, *limit, made.per_item / share, interval)
    return [msgspec.structs.replace(made, code=code, forecast=when)]


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
