"""Real control groups of the kernel, made for a test and removed after it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from feedrate.host.cgroups import UNIFIED, own_groups
from feedrate.host.files import SystemReader
from feedrate.host.limits import parse_counters


@contextmanager
def group(controller: str, file_1: str, file_2: str) -> Iterator[tuple[Path, bool]]:
    """Make a group below the own one; give its folder and whether it is of version 2.

    Skips the test where that is not possible.
    """
    for name, needed in ((controller, file_1), (UNIFIED, file_2)):
        parent = next(own_groups(SystemReader(), name), None)
        if parent is None:
            continue
        folder = Path(parent) / f"feedrate-test-{controller}-{os.getpid()}"
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


@contextmanager
def memory_group(limit: int) -> Iterator[tuple[Path, bool]]:
    """Make a group whose processes may take ``limit`` bytes together."""
    with group("memory", "memory.limit_in_bytes", "memory.max") as (folder, version_2):
        write(folder / ("memory.max" if version_2 else "memory.limit_in_bytes"), str(limit))
        yield folder, version_2


@contextmanager
def cpu_group(cpus: float) -> Iterator[Path]:
    """Make a group whose processes may use so many CPUs together."""
    with group("cpu", "cpu.cfs_quota_us", "cpu.max") as (folder, version_2):
        quota = round(100_000 * cpus)
        if version_2:
            write(folder / "cpu.max", f"{quota} 100000")
        else:
            write(folder / "cpu.cfs_period_us", "100000")
            write(folder / "cpu.cfs_quota_us", str(quota))
        yield folder


def write(file: Path, text: str) -> None:
    """Set something of a group; skip the test where that is not allowed."""
    try:
        file.write_text(text)
    except OSError as error:
        pytest.skip(f"{file.name} cannot be set: {error.strerror}")


def kills(folder: Path, *, version_2: bool) -> int:
    """Return how many processes of the group the kernel has killed for lack of memory."""
    name = "memory.events" if version_2 else "memory.oom_control"
    return parse_counters((folder / name).read_text())["oom_kill"]
