"""Machines as tests need them."""

from __future__ import annotations

from typing import Any

from doctor.hosts import make_host
from feedrate.doctor.checks import Check, DoctorFacts, run_checks
from feedrate.doctor.machine_checks import CHECKS
from feedrate.doctor.machine_facts import CpuFacts, MachineFacts, SoftwareFacts
from feedrate.host.gpus import Gpus
from feedrate.host.limits import MemoryLimits, ShmSpace
from feedrate.host.storage import Storage
from feedrate.records import Finding

GIB = 1 << 30


def make_cpus(logical: int = 4, **changes: Any) -> CpuFacts:
    """Return CPUs of which all can be used."""
    facts: dict[str, Any] = {
        "logical": logical,
        "affinity": logical,
        "usable": float(logical),
        "limited_by": "affinity",
        "online": logical,
    }
    return CpuFacts(**(facts | changes))


def make_software(**changes: Any) -> SoftwareFacts:
    """Return versions that fit each other, built for the CPU alone."""
    facts: dict[str, Any] = {
        "python": "3.11.4",
        "torch": "2.6.0",
        "torchvision": "0.21.0",
        "build": "cpu",
        "torchvision_needs": "==2.6.0",
    }
    return SoftwareFacts(**(facts | changes))


def make_machine(**changes: Any) -> MachineFacts:
    """Return a machine with figures that nothing is wrong with: 4 CPUs, 8 GiB, no GPU."""
    facts: dict[str, Any] = {
        "host": make_host(),
        "cpus": make_cpus(),
        "software": make_software(),
        "gpus": Gpus(),
        "group_kills": 0,
        "storage": Storage(".", "solid state disk", "ext4"),
    }
    return MachineFacts(**(facts | changes))


def server() -> MachineFacts:
    """Return an ordinary Linux box of 2 CPUs and 24 GiB."""
    memory = MemoryLimits(24 * GIB, 22 * GIB, None, None, 22 * GIB, "available memory")
    return make_machine(
        host=make_host(memory=memory, shm=ShmSpace(12 * GIB, 12 * GIB)), cpus=make_cpus(2)
    )


def mac() -> MachineFacts:
    """Return a laptop that runs macOS, where 256 open files and spawn are usual."""
    host = make_host(
        system="Darwin",
        start_method="spawn",
        shm=None,
        memory_kills=None,
        descriptors=256,
        descriptors_most=None,
        maps=None,
    )
    return make_machine(
        host=host,
        cpus=make_cpus(8, online=None),
        group_kills=None,
        storage=Storage(".", "unknown"),
        software=make_software(build=None),
    )


def linux_laptop() -> MachineFacts:
    """Return a laptop with a GPU that runs a desktop too, in a session's control group."""
    memory = MemoryLimits(16 * GIB, 5 * GIB, None, None, 5 * GIB, "available memory")
    return make_machine(
        host=make_host(memory=memory, shm=ShmSpace(8 * GIB, 7 * GIB), memory_kills=1),
        cpus=make_cpus(16, cpuset=16),
        group_kills=None,
        gpus=Gpus(("NVIDIA GeForce RTX 4060 Laptop GPU",), "550.54.14", 1),
        software=make_software(build="cuda 12.4"),
    )


def gpu_node() -> MachineFacts:
    """Return a training node: 8 GPUs and ranks, 96 CPUs."""
    memory = MemoryLimits(1024 * GIB, 900 * GIB, None, None, 900 * GIB, "available memory")
    return make_machine(
        host=make_host(memory=memory, shm=ShmSpace(512 * GIB, 512 * GIB), descriptors=65536),
        cpus=make_cpus(96, ranks=8),
        gpus=Gpus(("NVIDIA H100 80GB HBM3",) * 8, "570.86.15", 8),
        software=make_software(build="cuda 12.6"),
        environment={"OMP_NUM_THREADS": "1"},
    )


def found(machine: MachineFacts, *checks: Check) -> dict[str, Finding]:
    """Return what the checks find, all of the machine's by default, by its code."""
    findings, _ = run_checks(checks or CHECKS, DoctorFacts(machine))
    return {finding.code: finding for finding in findings}


def seen(machine: MachineFacts) -> dict[str, str]:
    """Return what was looked at and is fine, by the name of the check."""
    _, fine = run_checks(CHECKS, DoctorFacts(machine))
    return {looked.name: looked.seen for looked in fine}


def container(**changes: Any) -> MachineFacts:
    """Return a container with a quota of 2 of 64 CPUs."""
    cpus = make_cpus(64, usable=2.0, limited_by="cgroup quota", quota=2.0)
    return make_machine(**({"cpus": cpus, "container": "Docker"} | changes))


def container_with_small_shm() -> MachineFacts:
    """Return a container with Docker's default of 64 MiB for shared memory."""
    small = 64 << 20
    return make_machine(host=make_host(shm=ShmSpace(small, small)), container="Docker")
