"""Limits of real control groups, made for the test and removed after it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from feedrate.host.cgroups import UNIFIED, own_groups
from feedrate.host.files import SystemReader

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


@contextmanager
def group(controller: str, file_1: str, file_2: str) -> Iterator[tuple[Path, bool]]:
    """Make a group below the own one; give its folder and whether it is of version 2.

    Skips the test where that is not possible.
    """
    for name, needed in ((controller, file_1), (UNIFIED, file_2)):
        parent = next(own_groups(SystemReader(), name), None)
        if parent is None:
            continue
        folder = Path(parent) / f"feedrate-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as error:
            pytest.skip(f"no group can be made in {parent}: {error.strerror}")
        try:
            if (folder / needed).exists():
                yield folder, name == UNIFIED
                return
        finally:
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()
    pytest.skip(f"no {controller} controller is open to groups below this process's own")


def write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        pytest.skip(f"{file.name} cannot be set: {error.strerror}")


def run_inside(folder: Path, program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", ENTER + program, str(folder)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def limit_memory(folder: Path, version_2: bool, limit: int) -> None:
    write(folder / ("memory.max" if version_2 else "memory.limit_in_bytes"), str(limit))


def test_a_real_quota() -> None:
    with group("cpu", "cpu.cfs_quota_us", "cpu.max") as (folder, version_2):
        if version_2:
            write(folder / "cpu.max", "50000 100000")
        else:
            write(folder / "cpu.cfs_period_us", "100000")
            write(folder / "cpu.cfs_quota_us", "50000")
        found = run_inside(
            folder,
            "limit = usable_cpus(reader, affinity())\n"
            "print(json.dumps([limit.cpus, limit.source]))",
        )
    assert found == [0.5, "cgroup quota"]


def test_a_real_memory_limit() -> None:
    limit = 256 * MIB
    with group("memory", "memory.limit_in_bytes", "memory.max") as (folder, version_2):
        limit_memory(folder, version_2, limit)
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
    with group("memory", "memory.limit_in_bytes", "memory.max") as (folder, version_2):
        limit_memory(folder, version_2, 128 * MIB)
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
