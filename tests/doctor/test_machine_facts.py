"""Gathering the machine's facts: from this machine, and from recorded files."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from doctor.machines import make_machine
from feedrate.doctor.machine import gather_machine, parse_build, with_files
from feedrate.doctor.machine_facts import CpuFacts, MachineFacts
from feedrate.host.files import FakeReader
from feedrate.host.gpus import Gpus
from feedrate.host.storage import DataSize
from feedrate.measure.examined import MOST_FILES

MEMINFO = "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"
V2 = {
    "/proc/self/cgroup": "0::/\n",
    "/proc/self/mountinfo": (
        "500 400 0:60 / / rw - overlay overlay rw\n"
        "30 25 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
    ),
    "/proc/meminfo": MEMINFO,
    "/proc/vmstat": "oom_kill 12\n",
    "/sys/fs/cgroup/cpu.max": "200000 100000\n",
    "/sys/fs/cgroup/cpuset.cpus.effective": "0-31\n",
    "/sys/fs/cgroup/memory.max": "4294967296\n",
    "/sys/fs/cgroup/memory.current": "1073741824\n",
    "/sys/fs/cgroup/memory.stat": "inactive_file 536870912\n",
    "/sys/fs/cgroup/memory.events": "low 0\nhigh 0\nmax 31\noom 3\noom_kill 3\n",
    "/sys/devices/system/cpu/online": "0-63\n",
    "/.dockerenv": "",
}
V1 = {
    "/proc/self/cgroup": "4:memory:/docker/abc\n3:cpuset:/docker/abc\n1:cpu,cpuacct:/docker/abc\n",
    "/proc/self/mountinfo": (
        "500 400 0:60 / / rw - overlay overlay rw\n"
        "32 31 0:29 /docker/abc /cg/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
        "34 31 0:31 /docker/abc /cg/cpuset ro - cgroup cgroup rw,cpuset\n"
        "35 31 0:32 /docker/abc /cg/memory ro - cgroup cgroup rw,memory\n"
    ),
    "/proc/meminfo": MEMINFO,
    "/cg/cpu/cpu.cfs_quota_us": "200000\n",
    "/cg/cpu/cpu.cfs_period_us": "100000\n",
    "/cg/cpuset/cpuset.effective_cpus": "0-31\n",
    "/cg/memory/memory.limit_in_bytes": "4294967296\n",
    "/cg/memory/memory.usage_in_bytes": "1073741824\n",
    "/cg/memory/memory.stat": "total_inactive_file 536870912\n",
    "/cg/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    "/sys/devices/system/cpu/online": "0-63\n",
}


def silent() -> str | None:
    return None


@pytest.fixture
def of_64_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedrate.doctor.machine.affinity", lambda: 64)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)


def recorded(files: dict[str, str], environ: dict[str, str] | None = None) -> MachineFacts:
    return gather_machine(reader=FakeReader(files), environ=environ or {}, ask_gpus=silent)


@pytest.mark.usefixtures("of_64_cpus")
@pytest.mark.parametrize("files", [V2, V1])
def test_a_container_in_both_versions_of_control_groups(files: dict[str, str]) -> None:
    machine = recorded(files, {"LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "8", "HOME": "/x"})
    assert machine.cpus == CpuFacts(
        logical=64,
        affinity=64,
        usable=2.0,
        limited_by="cgroup quota",
        quota=2.0,
        cpuset=32,
        online=64,
        ranks=2,
    )
    assert machine.group_kills == 3
    assert machine.host.memory.cgroup_limit == 4 << 30
    assert machine.host.memory.free == (4 << 30) - (512 << 20)
    assert machine.container == "Docker"
    assert machine.environment == {"OMP_NUM_THREADS": "8"}
    assert machine.storage is not None
    assert machine.storage.kind == "container layer"
    assert machine.data_size is None
    assert machine.gpus == Gpus()


@pytest.mark.usefixtures("of_64_cpus")
def test_a_machine_without_limits() -> None:
    machine = recorded({"/proc/meminfo": MEMINFO, "/proc/vmstat": "oom_kill 12\n"})
    assert machine.cpus == CpuFacts(logical=64, affinity=64, usable=64.0, limited_by="affinity")
    assert machine.group_kills is None
    assert machine.host.memory_kills == 12
    assert machine.container is None


def test_this_machine() -> None:
    machine = gather_machine(Path(__file__), ask_gpus=silent)
    assert machine.software.python == platform.python_version()
    assert machine.cpus.affinity <= machine.cpus.logical
    assert machine.cpus.usable <= machine.cpus.affinity
    assert machine.data_size == DataSize(Path(__file__).stat().st_size, 1)


@pytest.mark.parametrize(
    ("environ", "compatible"),
    [
        ({}, False),
        ({"_CUDA_COMPAT_PATH": "/usr/local/cuda/compat"}, True),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/compat/lib:/usr/lib"}, True),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, False),
    ],
)
def test_libraries_of_a_newer_driver(environ: dict[str, str], compatible: bool) -> None:
    assert recorded({}, environ).software.cuda_compat is compatible


@pytest.mark.parametrize(
    ("version", "text", "build"),
    [
        ("2.6.0", "cuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n", "cuda 12.4"),
        ("2.4.0", "__version__ = '2.4.0+cu121'\ncuda = '12.1'\nhip = None\n", "cuda 12.1"),
        ("2.6.0", "cuda: Optional[str] = None\nhip: Optional[str] = '6.2.4'\n", "rocm 6.2.4"),
        ("2.6.0", "cuda: Optional[str] = None\nhip: Optional[str] = None\n", "cpu"),
        ("2.6.0", "cuda = None\n", "cpu"),
        ("2.6.0", "nothing\n", None),
        ("2.6.0", None, None),
        ("2.6.0+cpu", None, "cpu"),
    ],
)
def test_what_torch_was_built_for(version: str, text: str | None, build: str | None) -> None:
    assert parse_build(version, text) == build


def test_the_files_that_a_target_read_are_its_data(tmp_path: Path) -> None:
    for number in range(2 * MOST_FILES):
        (tmp_path / f"{number:02d}.jpg").write_bytes(b"x" * 100)
    files = [str(file) for file in sorted(tmp_path.iterdir())]
    machine = make_machine()
    reader = FakeReader({})
    one = with_files(machine, files[:1], reader)
    assert one.data_size == DataSize(100, 1)
    assert one.storage is not None
    assert one.storage.place == files[0]
    few = with_files(machine, [*files[:3], str(tmp_path / "gone.jpg")], reader)
    assert few.data_size == DataSize(300, 4)
    many = with_files(machine, files[:MOST_FILES], reader)  # of which there are more
    assert many.data_size == DataSize(200 * MOST_FILES, 2 * MOST_FILES)
    assert many.storage is not None
    assert many.storage.place == str(tmp_path)
    assert with_files(machine, (), reader) is machine
