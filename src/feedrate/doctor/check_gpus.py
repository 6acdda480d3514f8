"""The check of NVIDIA GPUs: whether there are any, and whether torch here can use them."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.first_guess import usable_gpus
from feedrate.doctor.machine_facts import MachineFacts
from feedrate.host.gpus import GpuUse
from feedrate.records import Evidence, Finding

# CUDA Toolkit release notes, minimum driver for the minor version compatibility of a major one.
LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
IN_USE = 0.25
"""From this share of memory, or of time, on a GPU is in use by more than a desktop."""


def _gpus(facts: DoctorFacts) -> Finding | None:
    machine = facts.machine
    if not machine.gpus.names or machine.software.torch is None:
        return None
    if machine.gpus.reachable == 0:
        return _unreachable(machine)
    if usable_gpus(machine) == 0:
        return _hidden(machine)
    if machine.software.build == "cpu":
        return _without_cuda(machine)
    return _old_driver(machine) or _in_use(machine)


def _unreachable(machine: MachineFacts) -> Finding:
    where = "this container was given none" if machine.container else "this process sees none"
    return Finding(
        code="gpu_unreachable",
        severity="info",
        title=f"{_named(machine)} is in this machine, and {where}",
        why="training here runs on the CPU",
        remedy="if it was to use them: docker run --gpus all, or a GPU in the job's request",
        evidence=_count(machine),
    )


def _hidden(machine: MachineFacts) -> Finding:
    visible = machine.environment.get("CUDA_VISIBLE_DEVICES", "")
    return Finding(
        code="gpu_hidden",
        severity="info",
        title=f'CUDA_VISIBLE_DEVICES="{visible}" hides {_named(machine)} from torch',
        why="training here runs on the CPU",
        remedy="if that was not meant: unset CUDA_VISIBLE_DEVICES",
        evidence=_count(machine),
    )


def _without_cuda(machine: MachineFacts) -> Finding:
    return Finding(
        code="setup.torch_without_gpu",
        severity="warning",
        title=f"torch {machine.software.torch} is built without CUDA; here is {_named(machine)}",
        why="training runs on the CPU, and the step takes so long that no loader seems slow",
        remedy=(
            "install a build with CUDA: https://pytorch.org/get-started/locally tells the command"
        ),
        evidence=_count(machine),
    )


def _old_driver(machine: MachineFacts) -> Finding | None:
    build, driver = machine.software.build or "", machine.gpus.driver or ""
    major = _leading(build.removeprefix("cuda "))
    least, own = LEAST_DRIVER.get(major or 0), _leading(driver)
    if not build.startswith("cuda ") or least is None or own is None or own >= least:
        return None
    if machine.software.cuda_compat:
        return None
    return Finding(
        code="setup.driver_too_old",
        severity="warning",
        title=(
            f"torch {machine.software.torch} is built for CUDA {major}, which needs an NVIDIA "
            f"driver of {least} or later, and {driver} is installed"
        ),
        why="torch.cuda.is_available() is false then, and training runs on the CPU",
        remedy="upgrade the driver, or install a torch built for an earlier CUDA",
        evidence=(
            Evidence(name="driver", value=float(own), unit=""),
            Evidence(name="driver needed", value=float(least), unit=""),
        ),
    )


def _in_use(machine: MachineFacts) -> Finding | None:
    busiest = max(machine.gpus.use, key=_share, default=None)
    if busiest is None or _share(busiest) < IN_USE:
        return None
    evidence: list[Evidence] = []
    words: list[str] = []
    if busiest.used is not None and busiest.total is not None:
        evidence.append(Evidence(name="memory taken", value=float(busiest.used), unit="bytes"))
        words.append(f"{units.size(busiest.used)} of {units.size(busiest.total)} is taken")
    if busiest.busy is not None:
        evidence.append(Evidence(name="working", value=busiest.busy, unit="share"))
        words.append(f"it works {units.share(busiest.busy)} of the time")
    return Finding(
        code="gpu_in_use",
        severity="info",
        title=f"a GPU is in use already: {', and '.join(words)}",
        why="what is measured now contains what the other program takes",
        remedy="nvidia-smi names the programs; measure when they have ended",
        evidence=tuple(evidence),
    )


def _share(use: GpuUse) -> float:
    memory = use.used / use.total if use.used is not None and use.total else 0.0
    return max(memory, use.busy or 0.0)


def _seen(facts: DoctorFacts) -> str:
    machine = facts.machine
    if not machine.gpus.names:
        return "there is no NVIDIA GPU"
    driver = f", driver {machine.gpus.driver}" if machine.gpus.driver else ""
    return f"{_named(machine)}{driver}; torch is built for {machine.software.build or 'something'}"


def _named(machine: MachineFacts) -> str:
    names = machine.gpus.names
    return f"{len(names)} × {names[0]}" if len(names) > 1 else names[0]


def _count(machine: MachineFacts) -> tuple[Evidence, ...]:
    return (
        Evidence(name="GPUs", value=float(len(machine.gpus.names)), unit=""),
        Evidence(name="GPUs within reach", value=float(usable_gpus(machine)), unit=""),
    )


def _leading(version: str) -> int | None:
    number = version.partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() else None


CHECKS = (Check("GPU", _gpus, _seen),)
