"""The checks of memory and files, on made-up facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doctor.hosts import make_host
from doctor.machines import (
    GIB,
    container,
    found,
    make_cpus,
    make_machine,
    seen,
)
from doctor.target_builders import make_loop, make_setup, make_target
from feedrate.doctor.check_memory import BATCH, shm_need
from feedrate.doctor.checks import DoctorFacts, run_checks
from feedrate.doctor.machine_checks import CHECKS
from feedrate.host.limits import MemoryLimits, ShmSpace
from feedrate.host.storage import DataSize, Storage

MIB = 1 << 20


# --- memory


def test_shared_memory_is_held_against_the_targets_own_batches() -> None:
    machine = make_machine(host=make_host(shm=ShmSpace(GIB, GIB)))
    large = make_target(loop=make_loop(batch_bytes=300 * MIB))
    facts = DoctorFacts(machine, large)
    findings, _ = run_checks(CHECKS, facts)
    (finding,) = [each for each in findings if each.code == "risk.small_shm"]
    assert "too little for the batches of its workers" in finding.title
    assert "2 workers with 2 batches each, of 300 MiB" in finding.why
    assert finding.evidence[2].value == 5 * 300 * MIB
    for harmless in (
        make_target(loop=make_loop(batch_bytes=100 * MIB)),
        make_target(
            loop=make_loop(batch_bytes=300 * MIB), setup=make_setup(loader={"num_workers": 0})
        ),
    ):
        findings, _ = run_checks(CHECKS, DoctorFacts(machine, harmless))
        assert "risk.small_shm" not in {each.code for each in findings}


def test_kills_in_the_own_group_are_a_warning() -> None:
    limits = MemoryLimits(64 * GIB, 32 * GIB, 4 * GIB, GIB, 3 * GIB, "cgroup limit")
    machine = make_machine(group_kills=3, host=make_host(memory=limits, memory_kills=3))
    finding = found(machine)["crash.host_oom"]
    assert finding.severity == "warning"
    assert "has killed 3 processes for lack of memory in this control group" in finding.title
    assert {item.name: item.value for item in finding.evidence} == {
        "memory kills": 3,
        "memory limit": 4 * GIB,
    }
    assert "memory kills" not in seen(machine)


def test_kills_somewhere_on_the_machine_are_only_told() -> None:
    machine = make_machine(group_kills=None, host=make_host(memory_kills=1))
    finding = found(machine)["crash.host_oom"]
    assert finding.severity == "info"
    assert "has killed 1 process for lack of memory on this machine" in finding.title


def test_kills_elsewhere_on_the_machine_are_not_the_own_groups() -> None:
    assert "crash.host_oom" not in found(make_machine(host=make_host(memory_kills=7)))


def test_a_containers_default_of_64_mib_is_too_little() -> None:
    machine = container(host=make_host(shm=ShmSpace(64 * MIB, 64 * MIB)))
    finding = found(machine)["risk.small_shm"]
    assert finding.severity == "warning"
    assert "/dev/shm has 64.0 MiB free of 64.0 MiB" in finding.title
    assert "hold 91.9 MiB there" in finding.why  # (2 workers × 2 + 1) × 18.4 MiB
    assert "--shm-size" in finding.remedy
    assert finding.evidence[2].value == 5 * BATCH


def test_a_full_shm_is_to_be_emptied_not_enlarged() -> None:
    finding = found(make_machine(host=make_host(shm=ShmSpace(8 * GIB, 10 * MIB))))["risk.small_shm"]
    assert "see what fills it" in finding.remedy


def test_the_need_for_shm_counts_every_rank() -> None:
    alone = make_machine(cpus=make_cpus(32))
    assert shm_need(alone) == 9 * BATCH
    assert shm_need(make_machine(cpus=make_cpus(32, ranks=8))) == 8 * 9 * BATCH
    of_ranks = make_machine(cpus=make_cpus(32, ranks=8), host=make_host(shm=ShmSpace(GIB, GIB)))
    assert "on each of 8 ranks" in found(of_ranks)["risk.small_shm"].why


def test_linux_without_shm_cannot_use_workers() -> None:
    finding = found(make_machine(host=make_host(shm=None)))["risk.small_shm"]
    assert "there is no /dev/shm" in finding.title


@pytest.mark.parametrize(
    ("free", "source", "remedy"),
    [
        (100 * MIB, "cgroup limit", "raise the container's memory limit"),
        (511 * MIB, "available memory", "end what is not needed"),
    ],
)
def test_hardly_any_memory(free: int, source: str, remedy: str) -> None:
    limits = MemoryLimits(8 * GIB, 4 * GIB, 2 * GIB, 2 * GIB - free, free, source)
    finding = found(make_machine(host=make_host(memory=limits)))["risk.little_memory"]
    assert finding.severity == "warning"
    assert finding.evidence[0].value == free
    assert finding.remedy.startswith(remedy)


# --- files


def test_few_descriptors_on_linux() -> None:
    host = make_host(descriptors=256, descriptors_most=4096)
    finding = found(make_machine(host=host))["risk.few_descriptors"]
    assert finding.severity == "warning"
    assert "ulimit -n is 256 here" in finding.title
    assert finding.remedy.startswith("ulimit -n 4096 before training, or torch.multi")
    fixed = make_host(descriptors=256, descriptors_most=256)
    remedy = found(make_machine(host=fixed))["risk.few_descriptors"].remedy
    assert remedy.startswith("torch.multiprocessing.set_sharing_strategy")


def test_storage_is_only_judged_where_the_data_was_named() -> None:
    network = Storage("/data", "network storage", "nfs4")
    few = DataSize(3 * GIB, 1000)
    finding = found(make_machine(storage=network, data_size=few))["storage"]
    assert (finding.severity, finding.title) == ("info", "/data is on network storage (nfs4)")
    assert "storage" not in found(make_machine(storage=replace(network, place=".")))
    fast = Storage("/data", "solid state disk", "xfs")
    assert "storage" not in found(make_machine(storage=fast, data_size=few))
    spinning = Storage("/data", "spinning disk", "xfs")
    title = found(make_machine(storage=spinning, data_size=few))["storage"].title
    assert title == "/data is on a spinning disk (xfs)"


def test_data_against_page_cache() -> None:
    finding = found(make_machine(data_size=DataSize(412 * GIB, 1_281_167, whole=False)))[
        "page_cache"
    ]
    assert finding.severity == "info"
    assert "at least 412 GiB in 1,281,167 files, 4.00 GiB free" in finding.title
    assert [item.value for item in finding.evidence] == [412 * GIB, 4 * GIB]
    fits = make_machine(data_size=DataSize(GIB, 1))
    assert "page_cache" not in found(fits)
    assert seen(fits)["page cache"].endswith("1.00 GiB in 1 file, 4.00 GiB free")
    assert (
        "could not be counted"
        in seen(make_machine(data_size=DataSize(1, 1, whole=False)))["page cache"]
    )
