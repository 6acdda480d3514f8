"""The guard in a memory control group of its own: it acts before the kernel kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(psutil.swap_memory().total > 0, reason="with swap nothing need be killed"),
]

LIMIT = 160 * 2**20

PROGRAM = """
    import os, sys, time
    with open(sys.argv[1] + "/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    from feedrate.remedies.memory_guard import MemoryGuard
    kept = []

    def save(limits):
        print("saved with", limits.source, flush=True)
        raise SystemExit(0)

    guard = MemoryGuard(save if sys.argv[2] != "none" else None)
    def steps():
        for _ in range(10_000):
            kept.append(os.urandom(2**20))
            time.sleep(0.01)
            yield
    for _ in guard.watch(steps()):
        pass
"""


@pytest.fixture
def group() -> Iterator[Path]:
    folder = Path(f"/sys/fs/cgroup/memory/feedrate-test-guard-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"no memory group can be made: {error}")
    yield folder
    until = time.monotonic() + 10
    while folder.exists() and time.monotonic() < until:
        with contextlib.suppress(OSError):
            folder.rmdir()


def train(tmp_path: Path, group: Path, how: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM))
    return subprocess.run(
        [sys.executable, str(script), str(group), how],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_on_limit_comes_before_the_kill(tmp_path: Path, group: Path) -> None:
    done = train(tmp_path, group, "saves")
    assert (done.returncode, done.stdout) == (0, "saved with cgroup limit\n"), done.stderr


def test_without_it_the_kernel_kills(tmp_path: Path, group: Path) -> None:
    assert train(tmp_path, group, "none").returncode == -signal.SIGKILL
