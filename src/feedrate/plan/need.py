"""What a setting will need in memory, from what was measured, and whether it can fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from feedrate.memory_records import MemorySnapshot
from feedrate.records import LoaderFacts, Run
from feedrate.settings import Budget, LoaderSettings

# torch's own, where neither the settings nor the target name one
# (torch.utils.data.DataLoader, "prefetch_factor: ... otherwise, if value of num_workers > 0
# default is 2").
DEFAULT_PREFETCH_FACTOR = 2

# The share of the free memory that a need may take. What is free changes while a run lasts, and
# workers went on growing after the reading they are judged by; the kernel ends processes at 1.
# For /dev/shm the whole is allowed: the need already counts every queue as full at once.
RAM_SHARE = 0.9

_MIB = 2**20
_GIB = 2**30

# What a worker is taken to have of its own before one was measured. One that is forked and loads
# nothing but small numbers has 7 MiB with torch 2.14; this much less refuses nobody who could run,
# and does refuse the 100,000 workers of a slip of the finger.
LEAST_WORKER_BYTES = 4 * _MIB


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting will need, in bytes, with the parts it is made of.

    ``main_bytes`` is the main process and what the workers share with it, ``worker_bytes`` what
    each worker has of its own, ``batch_bytes`` one batch. A part that nothing measured tells of is
    0, for a worker `LEAST_WORKER_BYTES`, and then ``known`` is false: the need is at least this.
    ``in_shm`` says that batches wait in ``/dev/shm``; those of feedrate's loader do not.
    """

    workers: int
    prefetch_factor: int
    batch_bytes: int
    main_bytes: int
    worker_bytes: int
    known: bool
    in_shm: bool = True

    @property
    def waiting_bytes(self) -> int:
        """All prefetched batches: workers × prefetch_factor × batch."""
        return self.workers * self.prefetch_factor * self.batch_bytes

    @property
    def shm_bytes(self) -> int:
        """What of them is in ``/dev/shm``."""
        return self.waiting_bytes if self.in_shm else 0

    @property
    def ram_bytes(self) -> int:
        """Main process, workers, and the batches that wait, which are memory wherever they are."""
        return self.main_bytes + self.workers * self.worker_bytes + self.waiting_bytes


def predict(settings: LoaderSettings, facts_of_previous: Sequence[Run]) -> Need:
    """Return what ``settings`` will need, from the runs of the same workload so far.

    Each part is the largest that any of those runs gives. Workers that were started in another way
    than ``settings`` names tell nothing of one's own memory, and are passed over.
    """
    facts = [run.facts for run in facts_of_previous if run.facts is not None]
    alike = [run for run in facts_of_previous if _starts_alike(run, settings)]
    batch_bytes = max((_batch_bytes(each, settings) for each in facts), default=0)
    main_bytes = max((_shared_bytes(run) for run in facts_of_previous), default=0)
    worker_bytes = max((_own_bytes(run) for run in alike), default=0)
    batch_seen = batch_bytes > 0 or any(run.epochs for run in facts_of_previous)
    return Need(
        workers=settings.num_workers,
        prefetch_factor=_prefetch_factor(settings, facts),
        batch_bytes=batch_bytes,
        main_bytes=main_bytes,
        worker_bytes=worker_bytes or LEAST_WORKER_BYTES,
        known=main_bytes > 0 and (settings.num_workers == 0 or (worker_bytes > 0 and batch_seen)),
        in_shm=_loader(settings, facts) != "feedrate",
    )


def objection(need: Need, budget: Budget) -> str | None:
    """Return why the need cannot fit into what is free, with the way out, or None if it can.

    ``budget`` says what is free now. A need that is not fully known is objected to only where the
    known part alone is too much.
    """
    about = "about" if need.known else "at least"
    workers = f"{need.workers} worker{'' if need.workers == 1 else 's'}"
    batches = f"{workers} × {need.prefetch_factor} prefetched × {_size(need.batch_bytes)} batches"
    if budget.shm_bytes is not None and need.shm_bytes > budget.shm_bytes:
        return (
            f"needs {about} {_size(need.shm_bytes)} in /dev/shm ({batches}), and "
            f"{_size(budget.shm_bytes)} are free: use fewer workers, a smaller prefetch_factor or "
            "batch, or enlarge /dev/shm"
        )
    if budget.ram_bytes is not None and need.ram_bytes > RAM_SHARE * budget.ram_bytes:
        parts = [f"{_size(need.main_bytes)} in the main process"] if need.main_bytes else []
        way_out = "free memory, or use a smaller batch"
        if need.workers:
            parts += [f"{workers} × {_size(need.worker_bytes)}"]
            parts += [batches] if need.batch_bytes else []
            way_out = "use fewer workers, or a smaller prefetch_factor or batch"
        return (
            f"needs {about} {_size(need.ram_bytes)} of memory ({' + '.join(parts)}), and "
            f"{_size(budget.ram_bytes)} are free, of which {RAM_SHARE:.0%} may be used: {way_out}"
        )
    return None


def _starts_alike(run: Run, settings: LoaderSettings) -> bool:
    if settings.start_method is None or run.facts is None:
        return True
    return run.facts.start_method in (None, settings.start_method)


def _loader(settings: LoaderSettings, facts: Sequence[LoaderFacts]) -> str | None:
    """Return whose loader it is: as asked for, else as the target was seen to have it."""
    seen = (each.loader for each in facts if each.loader is not None)
    return settings.loader or next(seen, None)


def _prefetch_factor(settings: LoaderSettings, facts: Sequence[LoaderFacts]) -> int:
    if settings.prefetch_factor is not None:
        return settings.prefetch_factor
    seen = [each.prefetch_factor for each in facts if each.prefetch_factor is not None]
    return max(seen, default=DEFAULT_PREFETCH_FACTOR)


def _batch_bytes(facts: LoaderFacts, settings: LoaderSettings) -> int:
    """Return the size of a batch under ``settings``: in proportion to its items."""
    if settings.batch_size is None or facts.batch_size is None:
        return facts.batch_bytes
    # A dataset with fewer items than a batch cannot fill it.
    most = facts.dataset_length or max(settings.batch_size, facts.batch_size)
    per_item = facts.batch_bytes / min(facts.batch_size, most)
    return math.ceil(per_item * min(settings.batch_size, most))


def _own_bytes(run: Run) -> int:
    """Return the memory that each worker had to itself, 0 if that was not measured."""
    measured = [
        reading
        for snapshot in run.memory
        if snapshot.worker_count and (reading := _uss(snapshot)) is not None
    ]
    if measured:
        return max(measured)
    if run.peaks is None or run.peaks.workers == 0:
        return 0
    return run.peaks.worker_bytes // run.peaks.workers


def _uss(snapshot: MemorySnapshot) -> int | None:
    if snapshot.workers is None or snapshot.workers.uss is None:
        return None
    return snapshot.workers.uss // snapshot.worker_count


def _shared_bytes(run: Run) -> int:
    """Return the memory of the main process with what the workers share, 0 if not measured.

    Workers that are forked share the dataset. Counted again for each of them, a dataset of 10 GiB
    would seem to need 50 with four workers, so what they share is added once, to the main process.
    """
    measured = [
        shared for snapshot in run.memory if (shared := _counted_once(snapshot)) is not None
    ]
    if measured:
        return max(measured)
    return 0 if run.peaks is None else run.peaks.main_bytes


def _counted_once(snapshot: MemorySnapshot) -> int | None:
    main, workers = snapshot.main, snapshot.workers
    if main.pss is None:
        return None
    if workers is None or snapshot.worker_count == 0:
        return main.pss
    if workers.pss is None or workers.uss is None:
        return None
    return main.pss + max(0, workers.pss - workers.uss)


def _size(count: int) -> str:
    if count >= _GIB:
        return f"{count / _GIB:.1f} GiB"
    mebibytes = count / _MIB
    return f"{mebibytes:.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.1f} MiB"
