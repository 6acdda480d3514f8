from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from feedrate.host.files import FakeReader
from feedrate.host.metadata import cpu_model, gather
from feedrate.version import __version__

CPUINFO = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD  EPYC 9654\nmodel name\t: other\n"


def test_facts_of_this_machine() -> None:
    found = gather("train.py:make_loader", ("bench", "train.py"), 7, "2026-01-02T03:04:05+00:00")
    assert (found.target, found.argv, found.seed) == (
        "train.py:make_loader",
        ("bench", "train.py"),
        7,
    )
    assert found.feedrate_version == __version__
    assert found.python_version == platform.python_version()
    assert found.logical_cpus == os.cpu_count()
    assert 0 < found.usable_cpus <= found.logical_cpus
    assert found.ram_bytes > 0
    assert found.numpy_version is not None
    assert found.torch_version is None


def test_limits_come_from_the_reader() -> None:
    reader = FakeReader(
        {
            "/proc/self/cgroup": "0::/\n",
            "/proc/self/mountinfo": "30 25 0:27 / /cg rw - cgroup2 cgroup2 rw\n",
            "/proc/meminfo": "MemTotal: 4000 kB\nMemAvailable: 3000 kB\n",
            "/proc/cpuinfo": CPUINFO,
            "/cg/cpu.max": "50000 100000\n",
            "/cg/memory.max": "2048000\n",
            "/cg/memory.current": "0\n",
        }
    )
    found = gather("x:y", (), None, "now", reader)
    assert (found.usable_cpus, found.usable_cpus_from) == (0.5, "cgroup quota")
    assert (found.ram_bytes, found.memory_limit_bytes) == (4_096_000, 2_048_000)
    assert found.cpu == "AMD EPYC 9654"


def test_ranks_that_share_the_host_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert gather("x:y", (), None, "now").local_ranks == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert gather("x:y", (), None, "now").local_ranks == 4


def test_names_of_the_host_and_the_user_are_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: pytest.fail("asked for the host's name"))
    found = gather("x:y", (), None, "now")
    assert sys.prefix not in repr(found)
    assert os.getcwd() not in repr(found)  # noqa: PTH109


def test_cpu_model_where_proc_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cpu_model(FakeReader({"/proc/cpuinfo": "CPU part\t: 0xd0c\n"})) == "aarch64"
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    assert cpu_model(FakeReader({})) == "arm"
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert cpu_model(FakeReader({})) == "unknown"


def test_neither_numpy_nor_torch_is_imported() -> None:
    program = (
        "import sys\n"
        "from feedrate.host.metadata import gather\n"
        "assert gather('x:y', (), None, 'now').numpy_version\n"
        "assert not {'numpy', 'torch', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
