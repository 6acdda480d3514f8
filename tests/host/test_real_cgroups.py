"""Limits of real control groups, made for the test and removed after it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from real_groups import cpu_group, memory_group

pytestmark = pytest.mark.needs_root

MIB = 1024**2

# Enters the group before anything else, so that all its memory is charged there.
ENTER = """\
import json, os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
from feedrate.host.files import SystemReader
from feedrate.host.limits import affinity, memory_limits, oom_kills, usable_cpus
reader = SystemReader()
"""


def run_inside(folder: Path, program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", ENTER + program, str(folder)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def test_a_real_quota() -> None:
    with cpu_group(0.5) as folder:
        found = run_inside(
            folder,
            "limit = usable_cpus(reader, affinity())\n"
            "print(json.dumps([limit.cpus, limit.source]))",
        )
    assert found == [0.5, "cgroup quota"]


def test_a_real_memory_limit() -> None:
    limit = 256 * MIB
    with memory_group(limit) as (folder, _):
        before, after, kills = run_inside(
            folder,
            "from dataclasses import asdict\n"
            "before = memory_limits(reader)\n"
            f"held = b'x' * ({64 * MIB})\n"
            "after = memory_limits(reader)\n"
            "print(json.dumps([asdict(before), asdict(after), oom_kills(reader)]))",
        )
    assert kills == 0
    for found in (before, after):
        assert found["cgroup_limit"] == limit
        assert found["free"] == limit - found["cgroup_used"]
        assert found["source"] == "cgroup limit"
    # The kernel charges memory in batches of at most some hundred KiB for each CPU.
    assert after["cgroup_used"] - before["cgroup_used"] == pytest.approx(64 * MIB, abs=4 * MIB)


@pytest.mark.skipif(psutil.swap_memory().total > 0, reason="with swap nothing need be killed")
def test_a_real_kill_for_lack_of_memory() -> None:
    with memory_group(128 * MIB) as (folder, _):
        before, status, after = run_inside(
            folder,
            "before = oom_kills(reader)\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            f"    held = b'x' * ({256 * MIB})\n"
            "    os._exit(0)\n"
            "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
            "print(json.dumps([before, status, oom_kills(reader)]))",
        )
    assert (before, status, after) == (0, -9, 1)
