"""The checks of the machine in general: no false alarm, and each says one thing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from doctor.machines import (
    container,
    found,
    gpu_node,
    linux_laptop,
    mac,
    make_machine,
    seen,
    server,
)
from feedrate.doctor import check_cpus, check_memory
from feedrate.doctor.checks import DoctorFacts, needs_action, run_checks
from feedrate.doctor.machine_checks import CHECKS
from feedrate.doctor.machine_facts import MachineFacts

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
