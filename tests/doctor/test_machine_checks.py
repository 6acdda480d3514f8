"""The checks of the machine, on made-up facts: what they find, and that they find nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from doctor.hosts import make_host
from doctor.machines import (
    GIB,
    found,
    gpu_node,
    linux_laptop,
    mac,
    make_cpus,
    make_machine,
    make_software,
    seen,
    server,
)
from feedrate.doctor import check_cpus, check_memory
from feedrate.doctor.check_memory import BATCH, shm_need
from feedrate.doctor.checks import DoctorFacts, needs_action, run_checks
from feedrate.doctor.first_guess import first_guess
from feedrate.doctor.machine_checks import CHECKS
from feedrate.doctor.machine_facts import MachineFacts
from feedrate.host.gpus import Gpus, GpuUse
from feedrate.host.limits import MemoryLimits, ShmSpace
from feedrate.host.storage import DataSize, Storage

MIB = 1 << 20
H100 = "NVIDIA H100 80GB HBM3"


def container(**changes: object) -> MachineFacts:
    """Return a container with a quota of 2 of 64 CPUs."""
    cpus = make_cpus(64, usable=2.0, limited_by="cgroup quota", quota=2.0)
    facts = {"cpus": cpus, "container": "Docker"} | changes
    return make_machine(**facts)


# --- no false alarm


@pytest.mark.parametrize("healthy", [make_machine, server, mac, linux_laptop, gpu_node, container])
def test_a_healthy_machine_needs_nothing(healthy: Callable[[], MachineFacts]) -> None:
    findings = found(healthy())
    assert [code for code in findings if findings[code].severity != "info"] == []
    assert not needs_action(findings.values())


@pytest.mark.parametrize("plain", [make_machine, server, mac, gpu_node])
def test_a_plain_machine_gets_its_guess_and_no_word_more(
    plain: Callable[[], MachineFacts],
) -> None:
    assert list(found(plain())) == ["workers_guess"]


def test_what_is_fine_is_told_with_its_figures() -> None:
    told = seen(make_machine(container="Podman"))
    assert told["/dev/shm"] == "4.00 GiB free of 4.00 GiB; a few workers need 165 MiB"
    assert told["CPUs"].startswith("4 CPUs can be used, os.cpu_count() says 4")
    assert told["memory"] == "4.00 GiB of memory can be taken now, of 8.00 GiB"
    assert "ulimit -n is 1,024 here" in told["open files"]
    assert "file_descriptor" in told["open files"]
    assert told["container"] == "this runs in a container (Podman)"
    assert told["storage"] == "the working directory is on a solid state disk (ext4)"
    assert told["versions"] == "torch 2.6.0, built for cpu, torchvision 0.21.0"
    assert "page cache" not in told
    assert "file_system" in seen(mac())["open files"]
    assert "spawned" in seen(mac())["start method"]
    assert seen(mac())["/dev/shm"] == "this platform has none, and needs none"


def test_each_check_says_one_thing_or_the_other() -> None:
    for machine in (make_machine(), container(), mac(), gpu_node(), linux_laptop()):
        findings, fine = run_checks(CHECKS, DoctorFacts(machine))
        assert len(findings) + len(fine) <= len(CHECKS)
        assert all("\n" not in looked.seen for looked in fine)


# --- memory


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


# --- software


def test_torchvision_of_another_torch() -> None:
    finding = found(make_machine(software=make_software(torch="2.5.1+cu121")))["setup.versions"]
    assert finding.severity == "warning"
    assert "torchvision 0.21.0 asks for torch ==2.6.0, and 2.5.1+cu121" in finding.title
    assert finding.remedy.endswith("pip install torch==2.6.0")
    same = make_software(torch="2.6.0+cpu")
    assert "setup.versions" not in found(make_machine(software=same))
    nightly = make_software(torch="2.7.0.dev20250101+cu126")
    assert "setup.versions" not in found(make_machine(software=nightly))


def test_no_torch() -> None:
    none = make_software(torch=None, torchvision=None, build=None, torchvision_needs=None)
    machine = make_machine(software=none)
    assert found(machine)["setup.versions"].title == "torch is not installed in this Python"
    assert "known faults" not in seen(machine)


@pytest.mark.parametrize(
    ("torchvision", "torch", "faulty"),
    [("0.19.1", "2.4.1", False), ("0.20.1+cpu", "2.5.1", True), ("0.21.0", "2.6.0", False)],
)
def test_the_leak_of_webp_images(torchvision: str, torch: str, faulty: bool) -> None:
    software = make_software(torch=torch, torchvision=torchvision, torchvision_needs=f"=={torch}")
    findings = found(make_machine(software=software))
    assert ("setup.known_fault" in findings) == faulty
    if faulty:
        finding = findings["setup.known_fault"]
        assert finding.title == "torchvision 0.20.1+cpu decodes WebP images with a leak"
        assert "torchvision 0.21 or later" in finding.remedy
        assert finding.severity == "info"


@pytest.mark.parametrize(
    ("python", "torchvision", "faulty"),
    [
        ("3.14.0", "0.25.0", False),
        ("3.14.1", "0.25.0", True),
        ("3.14.1", None, False),
        ("3.14.2", "0.25.0", False),
    ],
)
def test_the_python_that_breaks_torchvision(
    python: str, torchvision: str | None, faulty: bool
) -> None:
    software = make_software(python=python, torchvision=torchvision, torchvision_needs=None)
    findings = found(make_machine(software=software))
    assert ("setup.known_fault" in findings) == faulty
    if faulty:
        assert findings["setup.known_fault"].severity == "warning"
        assert findings["setup.known_fault"].remedy == "upgrade to Python 3.14.2 or later"


def test_forkserver_is_told_where_it_is_new() -> None:
    host = make_host(python_version="3.14.0", start_method="forkserver")
    finding = found(make_machine(host=host))["start_method"]
    assert finding.severity == "info"
    assert "Python 3.14.0 starts workers by forkserver" in finding.title
    assert "__main__" in finding.why


# --- GPUs


def test_torch_without_cuda_beside_a_gpu() -> None:
    machine = make_machine(gpus=Gpus((H100, H100), "570.1", 2))
    finding = found(machine)["setup.torch_without_gpu"]
    assert finding.severity == "warning"
    assert finding.title == f"torch 2.6.0 is built without CUDA; here is 2 × {H100}"


@pytest.mark.parametrize(
    ("build", "driver", "old"),
    [
        ("cuda 12.4", "525.60.13", False),
        ("cuda 12.4", "470.86", True),
        ("cuda 13.0", "575.51", True),
        ("cuda 13.0", "580.65.06", False),
        ("cuda 14.0", "100.1", False),  # what that needs is not known here
        ("rocm 6.2", "470.86", False),
        (None, "470.86", False),
    ],
)
def test_drivers_too_old_for_torchs_cuda(build: str | None, driver: str, old: bool) -> None:
    software = make_software(build=build)
    machine = make_machine(gpus=Gpus((H100,), driver, 1), software=software)
    assert ("setup.driver_too_old" in found(machine)) == old
    compatible = make_software(build=build, cuda_compat=True)
    helped = make_machine(gpus=Gpus((H100,), driver, 1), software=compatible)
    assert "setup.driver_too_old" not in found(helped)


def test_gpus_that_cannot_be_used_here_are_only_told() -> None:
    cuda = make_software(build="cuda 12.4")
    given_none = container(gpus=Gpus((H100,), "570.1", 0), software=cuda)
    finding = found(given_none)["gpu_unreachable"]
    assert finding.severity == "info"
    assert "this container was given none" in finding.title
    for value in ("", "-1", "NoDevFiles"):
        hidden = make_machine(
            gpus=Gpus((H100,), "570.1", 1),
            software=cuda,
            environment={"CUDA_VISIBLE_DEVICES": value},
        )
        title = found(hidden)["gpu_hidden"].title
        assert title == f'CUDA_VISIBLE_DEVICES="{value}" hides {H100} from torch'


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (GpuUse(80 * GIB, 60 * GIB, 0.0), "60.0 GiB of 80.0 GiB is taken, and it works 0 %"),
        (GpuUse(None, None, 0.9), "it works 90 % of the time"),
        (GpuUse(8 * GIB, GIB, 0.1), None),
        (GpuUse(), None),
    ],
)
def test_a_gpu_that_is_in_use(use: GpuUse, told: str | None) -> None:
    machine = make_machine(
        gpus=Gpus((H100, H100), "570.1", 2, (GpuUse(80 * GIB, 0, 0.0), use)),
        software=make_software(build="cuda 12.4"),
    )
    findings = found(machine)
    if told is None:
        assert "gpu_in_use" not in findings
    else:
        assert told in findings["gpu_in_use"].title
        assert findings["gpu_in_use"].severity == "info"


# --- CPUs


def test_os_cpu_count_under_a_quota() -> None:
    finding = found(container())["cpu_count_misleads"]
    assert finding.severity == "info"  # whether code goes by it is not known
    assert finding.title == "os.cpu_count() says 64, but 2 CPUs can be used here (cgroup quota)"
    assert "torch does not warn of it below 65" in finding.why
    assert finding.remedy == "write num_workers=2 where code has os.cpu_count()"
    assert {item.name: item.value for item in finding.evidence} == {
        "os.cpu_count()": 64,
        "affinity": 64,
        "cgroup quota": 2,
        "usable": 2,
    }


def test_os_cpu_count_under_a_cpu_set() -> None:
    cpus = make_cpus(64, affinity=8, usable=8.0, cpuset=8, online=64)
    finding = found(make_machine(cpus=cpus))["cpu_count_misleads"]
    assert "torch warns of it above 8" in finding.why
    assert "sched_getaffinity" in finding.remedy
    assert "speed.affinity" not in found(make_machine(cpus=cpus))


def test_a_part_of_a_cpu_misleads_nobody() -> None:
    cpus = make_cpus(2, usable=1.5, limited_by="cgroup quota", quota=1.5)
    assert "cpu_count_misleads" not in found(make_machine(cpus=cpus))


def test_an_affinity_narrower_than_its_group() -> None:
    cpus = make_cpus(16, affinity=1, usable=1.0, cpuset=8, online=16)
    findings = found(make_machine(cpus=cpus))
    assert "cpu_count_misleads" not in findings  # said once
    finding = findings["speed.affinity"]
    assert finding.severity == "info"
    assert finding.title == "this process may run on 1 of the 8 CPUs that its control group has"
    without = make_cpus(16, affinity=4, usable=4.0)
    title = found(make_machine(cpus=without))["speed.affinity"].title
    assert title == "this process may run on 4 of the 16 CPUs that the machine has"


def test_more_ranks_than_cpus() -> None:
    finding = found(make_machine(cpus=make_cpus(4, ranks=8)))["speed.ddp_oversubscription"]
    assert finding.title == "8 ranks share 4 CPUs"
    assert seen(gpu_node())["ranks"] == "8 ranks, 12 CPUs for each"


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"OMP_NUM_THREADS": "4"}, "4 workers with 4 threads each would share 4 CPUs (OMP_NUM_THR"),
        ({"OMP_NUM_THREADS": "8,2"}, "4 workers with 8 threads each"),
        ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "3"}, "(MKL_NUM_THREADS=3)"),
        ({"OPENCV_FOR_THREADS_NUM": "2"}, "(OPENCV_FOR_THREADS_NUM=2)"),
        ({"OMP_NUM_THREADS": "1"}, None),
        ({"OMP_NUM_THREADS": "many"}, None),
        ({"OMP_NUM_THREADS": "9" * 5000}, None),
        ({}, None),
    ],
)
def test_threads_times_workers(environment: dict[str, str], told: str | None) -> None:
    findings = found(make_machine(environment=environment))
    if told is None:
        assert "speed.blas_oversubscription" not in findings
    else:
        assert told in findings["speed.blas_oversubscription"].title
        assert findings["speed.blas_oversubscription"].severity == "info"


def test_threads_by_the_count_that_a_quota_leaves() -> None:
    title = found(container())["speed.blas_oversubscription"].title
    assert "2 workers with 64 threads each would share 2 CPUs" in title
    assert "libraries count 64 CPUs" in title
    limited = container(environment={"OMP_NUM_THREADS": "1"})
    assert "speed.blas_oversubscription" not in found(limited)


@pytest.mark.parametrize(
    ("environment", "binds"),
    [
        ({"OMP_PROC_BIND": "close"}, "OMP_PROC_BIND=close"),
        ({"OMP_PROC_BIND": "TRUE"}, "OMP_PROC_BIND=TRUE"),
        ({"GOMP_CPU_AFFINITY": "0-3"}, "GOMP_CPU_AFFINITY=0-3"),
        ({"KMP_AFFINITY": "granularity=fine,compact,1,0"}, "KMP_AFFINITY="),
        ({"OMP_PLACES": "cores"}, "OMP_PLACES=cores"),
        ({"OMP_PLACES": "cores", "OMP_PROC_BIND": "false"}, None),
        ({"KMP_AFFINITY": "disabled"}, None),
        ({"KMP_AFFINITY": "verbose,none"}, None),
        ({"OMP_PROC_BIND": ""}, None),
    ],
)
def test_openmp_that_binds_the_main_process(environment: dict[str, str], binds: str | None) -> None:
    binding = check_cpus.CHECKS[-1]
    findings = found(make_machine(environment=environment), binding)
    if binds is None:
        assert findings == {}
    else:
        assert findings["speed.affinity"].title.startswith(binds)
        assert "range(4)" in findings["speed.affinity"].remedy


# --- the first guess


@pytest.mark.parametrize(
    ("cpus", "gpus", "visible", "workers"),
    [
        (make_cpus(2), 0, None, 2),
        (make_cpus(64), 0, None, 4),
        (make_cpus(64), 2, None, 8),
        (make_cpus(64), 8, "0,1", 8),
        (make_cpus(64), 8, "0,-1,1", 4),
        (make_cpus(96, ranks=8), 8, None, 4),
        (make_cpus(16, ranks=8), 8, None, 2),
        (make_cpus(4, ranks=8), 8, None, 1),
        (make_cpus(64, usable=0.5, limited_by="cgroup quota", quota=0.5), 1, None, 1),
        (make_cpus(64, usable=3.9, limited_by="cgroup quota", quota=3.9), 1, None, 3),
    ],
)
def test_the_first_guess(cpus: object, gpus: int, visible: str | None, workers: int) -> None:
    machine = make_machine(
        cpus=cpus,
        gpus=Gpus((H100,) * gpus, "570.1", gpus) if gpus else Gpus(),
        software=make_software(build="cuda 12.4"),
        environment={} if visible is None else {"CUDA_VISIBLE_DEVICES": visible},
    )
    assert first_guess(machine).workers == workers
    finding = found(machine)["workers_guess"]
    assert finding.severity == "info"
    assert f"num_workers={workers} is a first guess" in finding.title
    assert "feedrate tune" in finding.remedy


def test_the_guess_spells_its_rule_out() -> None:
    why = found(gpu_node())["workers_guess"].why
    assert why == (
        "it is the lesser of 96 usable CPUs ÷ 8 ranks = 12 and the common 4 × GPUs = 4 "
        "(1 GPU for each rank); torch would warn above 96"
    )
    assert "(no GPU, which counts as one)" in found(server())["workers_guess"].why


# --- in general


def test_codes_are_of_the_form_that_findings_have() -> None:
    machines = (container(), linux_laptop(), make_machine(group_kills=1, environment={}))
    for machine in machines:
        for code in found(machine):
            assert re.fullmatch(r"([a-z]+\.)?[a-z_]+", code)


def test_speed_is_no_warning_before_it_was_measured() -> None:
    for finding in found(
        container(environment={"OMP_NUM_THREADS": "64", "OMP_PROC_BIND": "true"}),
        *check_cpus.CHECKS,
    ).values():
        assert finding.severity == "info"


def test_a_warning_needs_action_and_information_does_not() -> None:
    machine = make_machine(group_kills=2)
    assert needs_action(found(machine, *check_memory.CHECKS).values())
    assert not needs_action(found(make_machine()).values())
