"""Checks of what workers compute with: threads, and the CPUs that an import has left them.

A warning stands on a trial. Where there was no time for one, what was seen is information.
"""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_trials import evidence_of, faster, gain_of
from feedrate.records import Finding

_BUSY = 1.3
"""CPU time of all threads over that of the one that reads, from which on an item has several."""
_THREADS = 3
"""A worker has one, and one more that sends its batches."""
_ONE_EACH = (
    "set OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 before NumPy is imported, or "
    "use threadpoolctl in worker_init_fn"
)
_OWN_COUNT = (
    "torch limits only its own threads in a worker; OpenBLAS, MKL and OpenMP take as many as there "
    "are CPUs"
)
_AS_GOOD = 0.9


def _too_many_threads(target: TargetFacts) -> Finding | None:
    duel, loop = faster(target, "one_thread"), target.loop
    if duel is None:
        return _seen_threads(target)
    threads = loop.worker_threads if loop is not None else None
    return found(
        "speed.blas_oversubscription",
        "warning",
        f"libraries in {workers(target.workers)} start threads of their own, which compete for the "
        f"CPUs: with one thread each {gain_of(duel)}",
        why=_OWN_COUNT,
        remedy=_ONE_EACH,
        evidence=(
            *evidence_of(duel, "with one thread in each worker"),
            *([figure("threads of a worker", threads, "threads")] if threads else []),
        ),
    )


def _seen_threads(target: TargetFacts) -> Finding | None:
    """Say that items take more CPUs than there are, where what one thread gains was not tried."""
    items, setup, loop = target.items, target.setup, target.loop
    if target.duel("one_thread") is not None or not target.workers:
        return None
    threads = loop.worker_threads if loop is not None else None
    if items is None or setup is None or (threads is not None and threads < _THREADS):
        return None
    wanted = items.cpu_threads * target.workers
    if items.cpu_threads < _BUSY or wanted <= setup.cpus:
        return None
    return found(
        "speed.blas_oversubscription",
        "info",
        f"libraries start threads of their own: an item keeps {units.number(items.cpu_threads)} "
        f"CPUs busy, which {workers(target.workers)} take {units.number(wanted)} for, and "
        f"{units.number(setup.cpus)} can be used; what one thread each gains was not tried",
        why=_OWN_COUNT,
        remedy=_ONE_EACH,
        evidence=(
            figure("CPUs that an item keeps busy", items.cpu_threads, "CPUs"),
            *([figure("threads of a worker", threads, "threads")] if threads else []),
            figure("usable CPUs", setup.cpus, "CPUs"),
        ),
    )


def _too_few_threads(target: TargetFacts) -> Finding | None:
    duel, more = faster(target, "more_threads"), faster(target, "more")
    if duel is None:
        return None
    best = more is None or duel.gain >= _AS_GOOD * more.gain
    return found(
        "speed.single_threaded_worker",
        "warning" if best else "info",
        f"an item computes with one thread in a worker, and CPUs are idle: with {duel.value} "
        f"threads in {workers(target.workers)} {gain_of(duel)}"
        + (f" (num_workers={more.value}: {gain_of(more)})" if more is not None else ""),
        why="torch sets every worker to one thread, so that many workers do not compete",
        remedy=f"call torch.set_num_threads({duel.value}) in worker_init_fn, or use more workers",
        evidence=evidence_of(duel, f"with {duel.value} threads in each worker"),
    )


def _narrowed(facts: DoctorFacts) -> Finding | None:
    target = facts.target
    setup = target.setup if target is not None else None
    if target is None or setup is None or setup.affinity is None or setup.affinity_before is None:
        return None
    if setup.affinity >= setup.affinity_before:
        return None
    duel = faster(target, "all_cpus")
    what = (
        f"{setup.affinity} of {setup.affinity_before} CPUs are left to this process since the "
        "target was imported"
    )
    gained = f"; with all of them {workers(target.workers)} give {gain_of(duel)}" if duel else ""
    return found(
        "speed.affinity",
        "warning" if duel is not None else "info",
        what + gained,
        why="something that was imported has narrowed the process's affinity, and workers inherit "
        "it: OpenMP that binds threads (OMP_PROC_BIND, KMP_AFFINITY, GOMP_CPU_AFFINITY), or a "
        "library that calls sched_setaffinity",
        remedy="give the CPUs back after the imports, or in worker_init_fn: "
        "os.sched_setaffinity(0, range(os.cpu_count())); unset the variable that binds",
        evidence=(
            figure("CPUs before", setup.affinity_before, "CPUs"),
            figure("CPUs after", setup.affinity, "CPUs"),
            *(evidence_of(duel, "with all CPUs") if duel is not None else ()),
        ),
    )


CHECKS = (
    of_target("threads in workers", _too_many_threads),
    Check("affinity after imports", _narrowed, lambda _: ""),
    of_target("one thread in workers", _too_few_threads),
)
