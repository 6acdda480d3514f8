"""The checks of CPUs and the first guess, on made-up facts."""

from __future__ import annotations

import pytest

from doctor.machines import (
    container,
    found,
    gpu_node,
    make_cpus,
    make_machine,
    make_software,
    seen,
    server,
)
from feedrate.doctor import check_cpus
from feedrate.doctor.first_guess import first_guess
from feedrate.doctor.machine_facts import CpuFacts
from feedrate.host.gpus import Gpus

H100 = "NVIDIA H100 80GB HBM3"


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


def test_a_variable_of_another_openmp_binds_nothing() -> None:
    binding = check_cpus.CHECKS[-1]
    intels = {"KMP_AFFINITY": "granularity=fine,compact,1,0"}
    gnu = make_software(gnu_openmp=True)
    assert found(make_machine(environment=intels, software=gnu), binding) == {}
    both = intels | {"OMP_PLACES": "cores"}
    title = found(make_machine(environment=both, software=gnu), binding)["speed.affinity"].title
    assert title.startswith("OMP_PLACES=cores")


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
def test_the_first_guess(cpus: CpuFacts, gpus: int, visible: str | None, workers: int) -> None:
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
