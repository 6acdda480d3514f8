"""A first guess of num_workers from counts alone: for where nothing was measured yet."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.machine_facts import MachineFacts
from feedrate.records import Evidence, Finding

_NO_DEVICE = ("", "-1", "NoDevFiles")

PER_DEVICE = 4
"""The rule of thumb of workers for each GPU that tutorials and forums repeat."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Workers of each rank: the lesser of what the CPUs and what the rule of thumb would give."""

    workers: int
    by_cpus: int
    by_devices: int


def first_guess(machine: MachineFacts) -> Guess:
    """Return how many workers to begin with: usable CPUs ÷ ranks, at most 4 for each GPU of a rank.

    Without a GPU the CPU counts as one.
    """
    by_cpus = max(1, math.floor(machine.cpus.usable / machine.cpus.ranks))
    by_devices = PER_DEVICE * max(1, usable_gpus(machine) // machine.cpus.ranks)
    return Guess(min(by_cpus, by_devices), by_cpus, by_devices)


def usable_gpus(machine: MachineFacts) -> int:
    """Return how many GPUs torch in this process can use."""
    gpus = machine.gpus
    counts = [len(gpus.names)]
    if gpus.reachable is not None:
        counts.append(gpus.reachable)
    visible = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # CUDA takes the names up to the first that is none
        listed = [name.strip() for name in visible.split(",")]
        known = itertools.takewhile(lambda name: name not in _NO_DEVICE, listed)
        counts.append(len(list(known)))
    return min(counts)


def _find(facts: DoctorFacts) -> Finding:
    machine = facts.machine
    cpus, guess, gpus = machine.cpus, first_guess(machine), usable_gpus(machine)
    each = guess.by_devices // PER_DEVICE
    shared = "" if cpus.ranks == 1 else f" ÷ {cpus.ranks} ranks = {guess.by_cpus}"
    rule = f"{units.number(cpus.usable)} usable CPU{'' if cpus.usable == 1 else 's'}{shared}"
    gpu = f"{each} GPU{'' if each == 1 else 's'}" if gpus else "no GPU, which counts as one"
    if gpus and cpus.ranks > 1:
        gpu += " for each rank"
    return Finding(
        code="workers_guess",
        severity="info",
        title=f"num_workers={guess.workers} is a first guess, by counting: nothing was measured",
        why=(
            f"it is the lesser of {rule} and the common {PER_DEVICE} × GPUs = {guess.by_devices} "
            f"({gpu}); torch would warn above {cpus.affinity}"
        ),
        remedy="feedrate tune train.py measures what is best and replaces the guess",
        evidence=(
            Evidence(name="usable CPUs", value=cpus.usable, unit=""),
            Evidence(name="ranks", value=float(cpus.ranks), unit=""),
            Evidence(name="GPUs", value=float(gpus), unit=""),
        ),
    )


CHECKS = (Check("first guess of num_workers", _find, lambda _: ""),)
