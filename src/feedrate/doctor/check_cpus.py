"""Checks of CPUs: what programs count, what can be used, and who shares it.

None of these is a warning: how much time they cost is only known once it was measured.
"""

from __future__ import annotations

import math

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.first_guess import first_guess
from feedrate.doctor.machine import PINNING, THREAD_COUNTS
from feedrate.doctor.machine_facts import CpuFacts
from feedrate.records import Evidence, Finding


def _evidence(cpus: CpuFacts) -> tuple[Evidence, ...]:
    counts = [
        ("os.cpu_count()", float(cpus.logical)),
        ("affinity", float(cpus.affinity)),
        ("cgroup quota", cpus.quota),
        ("cpuset", cpus.cpuset),
        ("usable", cpus.usable),
    ]
    return tuple(
        Evidence(name=name, value=float(value), unit="CPUs")
        for name, value in counts
        if value is not None
    )


def _counts(facts: DoctorFacts) -> Finding | None:
    cpus = facts.machine.cpus
    if cpus.logical <= math.ceil(cpus.usable) or _narrowed_from(cpus) is not None:
        return None
    only_quota = cpus.usable < cpus.affinity
    workers = first_guess(facts.machine).by_cpus
    return Finding(
        code="cpu_count_misleads",
        severity="info",
        title=(
            f"os.cpu_count() says {cpus.logical}, but {_usable(cpus)} can be used here "
            f"({cpus.limited_by})"
        ),
        why=(
            f"num_workers=os.cpu_count() would start {units.ratio(cpus.logical / cpus.usable)} as "
            "many workers as there are CPUs for, each with its own memory and batches; "
            + (
                f"torch does not warn of it below {cpus.affinity + 1}, for a quota leaves the "
                "affinity as it is"
                if only_quota
                else f"torch warns of it above {cpus.affinity}"
            )
        ),
        remedy=(
            f"write num_workers={workers} where code has os.cpu_count()"
            if only_quota
            else "write len(os.sched_getaffinity(0)) where code has os.cpu_count()"
        ),
        evidence=_evidence(cpus),
    )


def _counts_seen(facts: DoctorFacts) -> str:
    cpus = facts.machine.cpus
    return (
        f"{_usable(cpus)} can be used, os.cpu_count() says {cpus.logical}, and torch would warn "
        f"above {cpus.affinity} workers"
    )


def _affinity(facts: DoctorFacts) -> Finding | None:
    cpus = facts.machine.cpus
    more = _narrowed_from(cpus)
    if more is None:
        return None
    whose = "its control group" if cpus.cpuset is not None else "the machine"
    return Finding(
        code="speed.affinity",
        severity="info",
        title=f"this process may run on {cpus.affinity} of the {more} CPUs that {whose} has",
        why=(
            "what started it narrowed its affinity, and workers inherit that; os.cpu_count() still "
            f"says {cpus.logical}, and torch warns above {cpus.affinity} workers"
        ),
        remedy=(
            "if that was not meant, look at what starts training: taskset, numactl, docker "
            "--cpuset-cpus, or the CPUs that a scheduler gives a task (srun --cpus-per-task)"
        ),
        evidence=_evidence(cpus),
    )


def _narrowed_from(cpus: CpuFacts) -> int | None:
    """Return how many CPUs there were before the affinity was narrowed, ``None`` if it was not."""
    known = [count for count in (cpus.cpuset, cpus.online) if count is not None]
    most = min(known, default=cpus.affinity)
    return most if cpus.affinity < most else None


def _ranks(facts: DoctorFacts) -> Finding | None:
    cpus = facts.machine.cpus
    if cpus.ranks <= cpus.usable:
        return None
    return Finding(
        code="speed.ddp_oversubscription",
        severity="info",
        title=f"{cpus.ranks} ranks share {_usable(cpus)}",
        why="each rank's main process already needs one, before any worker is started",
        remedy="start fewer ranks on this machine, or give the job more CPUs",
        evidence=(
            Evidence(name="ranks", value=float(cpus.ranks), unit=""),
            Evidence(name="usable CPUs", value=cpus.usable, unit=""),
        ),
    )


def _ranks_seen(facts: DoctorFacts) -> str:
    cpus = facts.machine.cpus
    if cpus.ranks == 1:
        return "one training process (LOCAL_WORLD_SIZE names no more)"
    return f"{cpus.ranks} ranks, {units.number(cpus.usable / cpus.ranks)} CPUs for each"


def _threads(facts: DoctorFacts) -> Finding | None:
    machine = facts.machine
    cpus, workers = machine.cpus, first_guess(machine).workers
    name, each = max(_thread_counts(facts), key=lambda known: known[1], default=("", 0))
    if each <= 1 or each * workers <= cpus.usable:
        if each or cpus.usable * 2 > cpus.affinity:
            return None
        # nothing is set, and libraries count what a quota does not narrow
        name, each = "", cpus.affinity
    said = f"{name}={each}" if name else f"no variable sets it, and libraries count {each} CPUs"
    return Finding(
        code="speed.blas_oversubscription",
        severity="info",
        title=(f"{workers} workers with {each} threads each would share {_usable(cpus)} ({said})"),
        why=(
            "torch computes with one thread in each worker, but NumPy, OpenCV and others go by "
            "their own count: threads that wait for each other's CPU slow all of them down"
        ),
        remedy=(
            f"export {name or 'OMP_NUM_THREADS'}=1 if items are made with them, and "
            "cv2.setNumThreads(0) in worker_init_fn; torch.set_num_threads sets what the main "
            "process uses"
        ),
        evidence=(
            Evidence(name="threads of each process", value=float(each), unit=""),
            Evidence(name="workers, a guess", value=float(workers), unit=""),
            Evidence(name="usable CPUs", value=cpus.usable, unit=""),
        ),
    )


def _threads_seen(facts: DoctorFacts) -> str:
    known = _thread_counts(facts)
    if not known:
        return "no variable sets their number (OMP_NUM_THREADS and the like)"
    return ", ".join(f"{name}={count}" for name, count in known)


def _thread_counts(facts: DoctorFacts) -> list[tuple[str, int]]:
    """Return the variables that set a number of threads; of OpenMP's levels the first."""
    known = []
    for name in THREAD_COUNTS:
        text = facts.machine.environment.get(name, "").partition(",")[0].strip()
        if text.isascii() and text.isdigit() and len(text) < 7:
            known.append((name, int(text)))
    return known


def _pinning(facts: DoctorFacts) -> Finding | None:
    # pytorch/pytorch#91989 and #99625 (OMP_PROC_BIND, KMP_AFFINITY), #49971 (GOMP_CPU_AFFINITY):
    # importing torch, or its first parallel operation, leaves the process on one place.
    environment = facts.machine.environment
    set_here = [name for name in PINNING if _binds(environment.get(name, ""))]
    if facts.machine.software.gnu_openmp and INTELS in set_here:
        set_here.remove(INTELS)
    if not set_here or environment.get("OMP_PROC_BIND", "").lower() in _UNBOUND:
        return None
    name, cpus = set_here[0], facts.machine.cpus
    return Finding(
        code="speed.affinity",
        severity="info",
        title=f"{name}={environment[name]} lets OpenMP bind the main process to few CPUs",
        why=(
            "once torch is imported, OpenMP binds its first thread, which is the main one, and "
            "workers inherit the CPUs that it has left: often a single one for all of them"
        ),
        remedy=(
            f"unset {name} for training, or give workers their CPUs back in worker_init_fn: "
            f"os.sched_setaffinity(0, range({cpus.logical}))"
        ),
        evidence=_evidence(cpus),
    )


INTELS = "KMP_AFFINITY"
"""Only Intel's OpenMP goes by it, with which conda builds torch."""
_UNBOUND = ("false", "disabled")


def _binds(value: str) -> bool:
    words = value.lower().replace("=", ",").split(",")
    return bool(value) and not any(word in ("none", *_UNBOUND) for word in words)


def _usable(cpus: CpuFacts) -> str:
    return f"{units.number(cpus.usable)} CPU{'' if cpus.usable == 1 else 's'}"


CHECKS = (
    Check("CPUs", _counts, _counts_seen),
    Check("affinity", _affinity, lambda facts: f"{facts.machine.cpus.affinity} CPUs, not narrowed"),
    Check("ranks", _ranks, _ranks_seen),
    Check("threads", _threads, _threads_seen),
    Check("thread binding", _pinning, lambda _: "no variable binds threads to CPUs"),
)
