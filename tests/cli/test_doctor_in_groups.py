"""``feedrate doctor`` under limits of real control groups."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from real_groups import cpu_group, kills, memory_group

pytestmark = pytest.mark.needs_root

MIB = 1 << 20
ENTER = """\
import os, sys
with open(sys.argv.pop(1) + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
"""
DOCTOR = f"{ENTER}from feedrate.cli.main import main\nmain()\n"
GREEDY = f"{ENTER}bytearray(b'x') * (1 << 30)\n"


def run(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, str(folder), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def look(folder: Path) -> tuple[dict[str, Any], int]:
    """Return the findings by their codes, and the exit code."""
    done = run(DOCTOR, folder, "doctor", "--json")
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    return {finding["code"]: finding for finding in findings}, done.returncode


def evidence(finding: dict[str, Any]) -> dict[str, float]:
    return {item["name"]: item["value"] for item in finding["evidence"]}


def test_half_a_cpu() -> None:
    with cpu_group(0.5) as folder:
        found, _ = look(folder)
    assert evidence(found["workers_guess"])["usable CPUs"] == 0.5
    assert "num_workers=1 " in found["workers_guess"]["title"]
    if (os.cpu_count() or 1) > 1:
        assert evidence(found["cpu_count_misleads"])["cgroup quota"] == 0.5


def test_a_kill_for_memory_in_the_own_group() -> None:
    with memory_group(200 * MIB) as (folder, version_2):
        died = run(GREEDY, folder)
        if died.returncode != -9 or not kills(folder, version_2=version_2):
            pytest.skip("the kernel gave more memory than the group's limit, by swapping")
        found, code = look(folder)
    assert code == 3
    assert found["crash.host_oom"]["severity"] == "warning"
    assert evidence(found["crash.host_oom"]) == {"memory kills": 1, "memory limit": 200 * MIB}
    assert "memory limit" in evidence(found["risk.little_memory"])
