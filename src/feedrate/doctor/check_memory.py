"""Checks of memory: what was killed for it, what is free, and ``/dev/shm``."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.facts import Facts
from feedrate.doctor.figures import say
from feedrate.doctor.first_guess import first_guess
from feedrate.doctor.machine_facts import MachineFacts
from feedrate.records import Evidence, Finding

LEAST_FREE = 512 << 20
"""Below this a training process and a few workers, each with torch imported, hardly fit."""
BATCH = 32 * 3 * 224 * 224 * 4
"""What stands for a batch where none is known: 32 images of 224 × 224 in float32, 18.4 MiB."""
AHEAD = 2
"""Batches that each worker loads ahead, by torch's default."""


def shm_need(machine: MachineFacts) -> int:
    """Return the bytes of batches on their way at once, with a first guess of workers.

    Each worker's two, and the one that the loop has; of all ranks.
    """
    return (AHEAD * first_guess(machine).workers + 1) * BATCH * machine.cpus.ranks


def _kills(facts: DoctorFacts) -> Finding | None:
    machine = facts.machine
    own = machine.group_kills
    kills = machine.host.memory_kills if own is None else own
    if not kills:
        return None
    where = "on this machine since it started" if own is None else "in this control group"
    evidence = [Evidence(name="memory kills", value=float(kills), unit="processes")]
    limit = machine.host.memory.cgroup_limit
    if limit is not None:
        evidence.append(Evidence(name="memory limit", value=float(limit), unit="bytes"))
    return Finding(
        code="crash.host_oom",
        # of a whole machine it may have been anything: a browser, say
        severity="info" if own is None else "warning",
        title=(
            f"the kernel has killed {units.number(kills)} process{'' if kills == 1 else 'es'} for "
            f"lack of memory {where}"
        ),
        why=(
            "a worker that is killed so ends the epoch with 'DataLoader worker is killed by "
            "signal: Killed'; the count does not tell when it was, nor which program"
        ),
        remedy=(
            "if it was training: fewer workers, a smaller prefetch_factor, or more memory for the "
            "container; python train.py 2>&1 | feedrate explain - tells whether it happens again"
        ),
        evidence=tuple(evidence),
    )


def _kills_seen(facts: DoctorFacts) -> str:
    return "" if facts.machine.host.memory_kills is None else "none was counted"


def _needed(facts: DoctorFacts) -> tuple[int, str]:
    """Return the bytes of batches on their way at once, and in words what they are.

    Of the target's own batches where it was iterated; 0 where it has no workers.
    """
    machine, target = facts.machine, facts.target
    ranks = f" on each of {machine.cpus.ranks} ranks" if machine.cpus.ranks > 1 else ""
    if target is None or target.loop is None or target.setup is None:
        workers = _workers(first_guess(machine).workers)
        what = f"{workers}{ranks} with {AHEAD} batches each, of 32 float32 images of 224 × 224"
        return shm_need(machine), what
    if not target.workers:
        return 0, ""
    ahead, size = target.setup.facts.prefetch_factor or AHEAD, target.loop.batch_bytes
    what = f"{_workers(target.workers)}{ranks} with {ahead} batches each, of {units.size(size)}"
    return (ahead * target.workers + 1) * size * machine.cpus.ranks, what


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def _shm(facts: DoctorFacts) -> Finding | None:
    machine = facts.machine
    shm = machine.host.shm
    if shm is None:
        if machine.host.system != "Linux":
            return None
        return Finding(
            code="risk.small_shm",
            severity="warning",
            title="there is no /dev/shm, through which workers hand over their batches",
            why="the first batch of a loader with workers would fail",
            remedy="mount one: mount -t tmpfs shm /dev/shm",
            evidence=(Evidence(name="size of /dev/shm", value=0.0, unit="bytes"),),
        )
    need, what = _needed(facts)
    if shm.free >= need:
        return None
    filled = shm.total >= need
    known = facts.target is not None and facts.target.loop is not None
    return Finding(
        code="risk.small_shm",
        severity="warning",
        title=(
            f"/dev/shm has {units.size(shm.free)} free of {units.size(shm.total)}: too little for "
            f"the batches of {'its workers' if known else 'a few workers'}"
        ),
        why=(
            f"{what}, and the one in the loop, hold {units.size(need)} there; where it is full, a "
            "worker dies of a bus error or finds no space left"
        ),
        remedy=(
            "see what fills it (ls -l /dev/shm): files named torch_ that no training uses may be "
            "removed"
            if filled
            else "give the container more: docker run --shm-size=8g or --ipc=host; in Kubernetes "
            "an emptyDir of medium Memory at /dev/shm; or load with feedrate.DataLoader, whose "
            "batches do not go through it"
        ),
        evidence=(
            Evidence(name="size of /dev/shm", value=float(shm.total), unit="bytes"),
            Evidence(name="free in /dev/shm", value=float(shm.free), unit="bytes"),
            Evidence(name="batches on their way", value=float(need), unit="bytes"),
        ),
    )


def _shm_seen(facts: DoctorFacts) -> str:
    shm = facts.machine.host.shm
    if shm is None:
        return "this platform has none, and needs none"
    need, what = _needed(facts)
    room = f"{units.size(shm.free)} free of {units.size(shm.total)}"
    if facts.target is None or facts.target.loop is None:
        what = "a few workers"
    return f"{room}; {what} need {units.size(need)}" if need else room


def _memory(facts: DoctorFacts) -> Finding | None:
    memory = facts.machine.host.memory
    if memory.free >= LEAST_FREE:
        return None
    sentence, evidence = say(("memory",), Facts(facts.machine.host))
    return Finding(
        code="risk.little_memory",
        severity="warning",
        title=f"hardly any memory is left: {sentence}",
        why="training and every worker import torch, and the kernel kills what does not fit",
        remedy=(
            "raise the container's memory limit"
            if memory.source == "cgroup limit"
            else "end what is not needed, or train on a machine with more"
        ),
        evidence=evidence,
    )


CHECKS = (
    Check("memory kills", _kills, _kills_seen),
    Check("/dev/shm", _shm, _shm_seen),
    Check("memory", _memory, lambda facts: say(("memory",), Facts(facts.machine.host))[0]),
)
