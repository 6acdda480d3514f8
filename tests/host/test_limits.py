from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import psutil
import pytest

from feedrate.host.files import FakeReader, SystemReader
from feedrate.host.limits import (
    CpuLimit,
    MemoryLimits,
    ShmSpace,
    affinity,
    budget,
    local_ranks,
    memory_limits,
    oom_kills,
    parse_cpu_list,
    parse_cpu_max,
    parse_meminfo,
    shm_named,
    shm_space,
    usable_cpus,
)
from feedrate.settings import Budget

MIB = 1024**2
GIB = 1024**3
UNLIMITED_1 = "9223372036854771712\n"
MEMINFO = "MemTotal:       16777216 kB\nMemFree: 10 kB\nMemAvailable:    8388608 kB\nHugePages: 0\n"

V2 = {
    "/proc/self/cgroup": "0::/pod/job\n",
    "/proc/self/mountinfo": "30 25 0:27 / /cg rw - cgroup2 cgroup2 rw\n",
    "/proc/meminfo": MEMINFO,
}
V1 = {
    "/proc/self/cgroup": "4:memory:/pod/job\n3:cpuset:/pod/job\n1:cpu,cpuacct:/pod/job\n",
    "/proc/self/mountinfo": (
        "32 31 0:29 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "34 31 0:31 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
        "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
    ),
    "/proc/meminfo": MEMINFO,
}


# --- CPUs


def test_affinity_alone() -> None:
    assert usable_cpus(FakeReader({}), 4) == CpuLimit(4.0, "affinity")


def test_quota_of_one_and_a_half_cpus_in_both_versions() -> None:
    two = FakeReader(V2 | {"/cg/pod/job/cpu.max": "150000 100000\n"})
    one = FakeReader(
        V1
        | {
            "/cg/cpu,cpuacct/pod/job/cpu.cfs_quota_us": "150000\n",
            "/cg/cpu,cpuacct/pod/job/cpu.cfs_period_us": "100000\n",
        }
    )
    assert usable_cpus(two, 32) == CpuLimit(1.5, "cgroup quota")
    assert usable_cpus(one, 32) == CpuLimit(1.5, "cgroup quota")


def test_the_quota_of_an_ancestor_counts_when_it_is_less() -> None:
    files = {
        "/cg/pod/job/cpu.max": "400000 100000\n",
        "/cg/pod/cpu.max": "125000 50000\n",
        "/cg/cpu.max": "max 100000\n",
    }
    assert usable_cpus(FakeReader(V2 | files), 32) == CpuLimit(2.5, "cgroup quota")


def test_no_quota_in_either_version() -> None:
    none = {
        "/cg/cpu,cpuacct/pod/job/cpu.cfs_quota_us": "-1\n",
        "/cg/cpu,cpuacct/pod/job/cpu.cfs_period_us": "100000\n",
    }
    assert usable_cpus(FakeReader(V1 | none), 8) == CpuLimit(8.0, "affinity")
    assert usable_cpus(FakeReader(V2 | {"/cg/pod/job/cpu.max": "max 100000"}), 8).cpus == 8


def test_cpu_set_in_both_versions() -> None:
    two = FakeReader(V2 | {"/cg/pod/cpuset.cpus.effective": "0-2,8\n"})  # not enabled further down
    assert usable_cpus(two, 32) == CpuLimit(4.0, "cpuset")
    one = {"/cg/cpuset/pod/job/cpuset.cpus": "0-9\n"}
    assert usable_cpus(FakeReader(V1 | one), 32) == CpuLimit(10.0, "cpuset")
    one["/cg/cpuset/pod/job/cpuset.effective_cpus"] = "0-1\n"
    assert usable_cpus(FakeReader(V1 | one), 32) == CpuLimit(2.0, "cpuset")
    one["/cg/cpuset/pod/job/cpuset.effective_cpus"] = "\n"
    assert usable_cpus(FakeReader(V1 | one), 32) == CpuLimit(10.0, "cpuset")


def test_of_equal_limits_the_affinity_is_named() -> None:
    reader = FakeReader(V2 | {"/cg/pod/cpuset.cpus.effective": "0-3\n"})
    assert usable_cpus(reader, 4) == CpuLimit(4.0, "affinity")


@pytest.mark.parametrize(
    ("text", "count"), [("0-3,8\n", 5), ("7", 1), ("", 0), ("\n", 0), ("x-y", 0), ("3-1", 0)]
)
def test_cpu_lists(text: str, count: int) -> None:
    assert parse_cpu_list(text) == count


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None), ("5 0", None), ("0 5", None)],
)
def test_cpu_max(text: str, cpus: float | None) -> None:
    assert parse_cpu_max(text) == cpus


def test_affinity_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= affinity() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert affinity() == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert affinity() == 1


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "8"}, 8),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
        ({"LOCAL_WORLD_SIZE": "many"}, 1),
    ],
)
def test_local_ranks(environ: dict[str, str], ranks: int) -> None:
    assert local_ranks(environ) == ranks


# --- memory


def test_machine_without_groups() -> None:
    expected = MemoryLimits(16 * GIB, 8 * GIB, None, None, 8 * GIB, "available memory")
    assert memory_limits(FakeReader({"/proc/meminfo": MEMINFO})) == expected


def test_limit_of_version_2_without_the_cache_that_is_given_back() -> None:
    files = {
        "/cg/pod/job/memory.max": f"{4 * GIB}\n",
        "/cg/pod/job/memory.current": f"{3 * GIB}\n",
        "/cg/pod/job/memory.stat": f"anon 5\nactive_file 7\ninactive_file {GIB}\n",
        "/cg/pod/memory.max": "max\n",
        "/cg/pod/memory.current": f"{3 * GIB}\n",
    }
    assert memory_limits(FakeReader(V2 | files)) == MemoryLimits(
        16 * GIB, 8 * GIB, 4 * GIB, 2 * GIB, 2 * GIB, "cgroup limit"
    )


def test_limit_of_version_1() -> None:
    files = {
        "/cg/memory/pod/job/memory.limit_in_bytes": f"{2 * GIB}\n",
        "/cg/memory/pod/job/memory.usage_in_bytes": f"{GIB}\n",
        "/cg/memory/pod/job/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 2}\n",
        "/cg/memory/memory.limit_in_bytes": UNLIMITED_1,
        "/cg/memory/memory.usage_in_bytes": f"{9 * GIB}\n",
    }
    assert memory_limits(FakeReader(V1 | files)) == MemoryLimits(
        16 * GIB, 8 * GIB, 2 * GIB, GIB // 2, GIB + GIB // 2, "cgroup limit"
    )


def test_the_huge_number_of_version_1_is_no_limit() -> None:
    files = {
        "/cg/memory/pod/job/memory.limit_in_bytes": UNLIMITED_1,
        "/cg/memory/pod/job/memory.usage_in_bytes": "4096\n",
    }
    found = memory_limits(FakeReader(V1 | files))
    assert (found.cgroup_limit, found.cgroup_used) == (None, None)
    assert found.source == "available memory"


def test_the_tightest_ancestor_is_the_one_with_least_room() -> None:
    files = {
        "/cg/pod/job/memory.max": f"{4 * GIB}\n",
        "/cg/pod/job/memory.current": f"{GIB}\n",
        "/cg/pod/memory.max": f"{6 * GIB}\n",
        "/cg/pod/memory.current": f"{5 * GIB}\n",
    }
    found = memory_limits(FakeReader(V2 | files))
    assert (found.cgroup_limit, found.cgroup_used, found.free) == (6 * GIB, 5 * GIB, GIB)


def test_available_memory_counts_when_it_is_less_than_the_room_in_the_group() -> None:
    files = {"/cg/pod/job/memory.max": f"{12 * GIB}", "/cg/pod/job/memory.current": "0"}
    found = memory_limits(FakeReader(V2 | files))
    assert (found.cgroup_limit, found.free, found.source) == (
        12 * GIB,
        8 * GIB,
        "available memory",
    )


def test_a_group_over_its_limit_has_nothing_free() -> None:
    files = {"/cg/pod/job/memory.max": f"{GIB}", "/cg/pod/job/memory.current": f"{2 * GIB}"}
    assert memory_limits(FakeReader(V2 | files)).free == 0


def test_elsewhere_psutil_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = types.SimpleNamespace(total=4 * GIB, available=GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    expected = MemoryLimits(4 * GIB, GIB, None, None, GIB, "available memory")
    assert memory_limits(FakeReader({})) == expected


def test_meminfo_without_its_lines() -> None:
    assert parse_meminfo(MEMINFO) == (16 * GIB, 8 * GIB)
    assert parse_meminfo("MemTotal: 4 kB\ngarbage\n") == (4096, None)
    assert parse_meminfo("") == (None, None)


# --- kills for lack of memory


def test_oom_kills_of_the_own_group() -> None:
    two = {
        "/cg/pod/job/memory.events": "low 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
        "/cg/pod/memory.events": "oom_kill 9\n",
    }
    assert oom_kills(FakeReader(V2 | two)) == 2
    one = {
        "/cg/memory/pod/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        "/cg/memory/memory.oom_control": "oom_kill 5\n",
    }
    assert oom_kills(FakeReader(V1 | one)) == 1


def test_oom_kills_of_the_machine_where_the_group_does_not_count() -> None:
    files = {"/cg/memory.events": "oom_kill 9\n", "/proc/vmstat": "nr_free 3\noom_kill 4\n"}
    assert oom_kills(FakeReader(V2 | files)) == 4
    assert oom_kills(FakeReader({})) is None


# --- /dev/shm and the budget


def test_what_files_take_is_told_of_those_that_have_a_name(tmp_path: Path) -> None:
    (tmp_path / "left").write_bytes(bytes(100_000))
    (tmp_path / "other").write_bytes(bytes(50_000))
    with (tmp_path / "gone").open("wb") as file:
        file.write(bytes(1_000_000))
        file.flush()
        (tmp_path / "gone").unlink()
        taken = shm_named(str(tmp_path))
    assert taken is not None
    if sys.platform != "win32":
        # a file system may give a file up to the next block of some kibibytes more
        assert 150_000 <= taken < 300_000
    assert shm_named(str(tmp_path / "missing")) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users by number")
def test_files_of_other_users_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch_1_2_3").write_bytes(bytes(100_000))
    assert (shm_named(str(tmp_path)) or 0) >= 100_000
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert shm_named(str(tmp_path)) == 0


def test_shm_space(monkeypatch: pytest.MonkeyPatch) -> None:
    def statvfs(path: str) -> types.SimpleNamespace:
        if path != "/dev/shm":
            raise FileNotFoundError(path)
        return types.SimpleNamespace(f_blocks=100, f_bfree=40, f_bavail=30, f_frsize=4096)

    monkeypatch.setattr(os, "statvfs", statvfs, raising=False)
    assert shm_space() == ShmSpace(409600, 163840)
    assert shm_space("/missing") is None
    monkeypatch.delattr(os, "statvfs")
    assert shm_space() is None


def test_budget_is_what_is_free() -> None:
    memory = MemoryLimits(16 * GIB, 8 * GIB, None, None, 8 * GIB, "available memory")
    cpus = CpuLimit(1.5, "cgroup quota")
    assert budget(cpus, memory, ShmSpace(64 * MIB, 60 * MIB)) == Budget(
        cpus=1.5, ram_bytes=8 * GIB, shm_bytes=60 * MIB
    )
    assert budget(cpus, memory, None).shm_bytes is None


def test_this_machine() -> None:
    reader = SystemReader()
    cpus, memory = usable_cpus(reader, affinity()), memory_limits(reader)
    assert 0 < cpus.cpus <= affinity()
    assert 0 <= memory.free <= memory.total
    made = budget(cpus, memory, shm_space())
    assert made.ram_bytes == memory.free
