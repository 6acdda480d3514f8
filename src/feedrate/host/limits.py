"""What this process may use: CPUs, memory and ``/dev/shm``, whichever limit is the least."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import psutil

from feedrate.host.cgroups import UNIFIED, own_groups
from feedrate.host.files import ProcReader
from feedrate.settings import Budget


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """CPUs that can be used at once, a fraction under a quota, and what sets that limit.

    ``source`` is "affinity", "cgroup quota" or "cpuset".
    """

    cpus: float
    source: str


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Memory of the machine and of the tightest control group above the process, in bytes.

    ``free`` is what can still be taken; ``source``, "available memory" or "cgroup limit", says
    which bound that is. ``cgroup_used`` leaves out page cache that the kernel gives back first.
    """

    total: int
    available: int
    cgroup_limit: int | None
    cgroup_used: int | None
    free: int
    source: str


@dataclass(frozen=True, slots=True)
class ShmSpace:
    """Size of a shared memory file system and what is free in it, in bytes."""

    total: int
    free: int


def affinity() -> int:
    """Return how many CPUs this process may run on; all of them where the platform cannot tell."""
    # Not on macOS or Windows. getattr, because type checkers know only their own platform's os.
    get = getattr(os, "sched_getaffinity", None)
    return (len(get(0)) if get else os.cpu_count()) or 1


def usable_cpus(reader: ProcReader, affinity: int) -> CpuLimit:
    """Return the least of the affinity, the quotas and the CPU sets of the process's groups.

    ``affinity`` is what `affinity` returns. A CPU set narrows the affinity too; of equal limits
    the affinity is named.
    """
    limits = [CpuLimit(float(affinity), "affinity")]
    limits += [CpuLimit(cpus, "cgroup quota") for cpus in _quotas(reader)]
    limits += [CpuLimit(float(count), "cpuset") for count in _cpu_sets(reader)]
    return min(limits, key=lambda limit: limit.cpus)


def cpu_quota(reader: ProcReader) -> float | None:
    """Return the least quota of the process's groups in CPUs, ``None`` without one."""
    return min(_quotas(reader), default=None)


def cpu_set(reader: ProcReader) -> int | None:
    """Return how many CPUs the process's groups leave it, ``None`` where none says."""
    return min(_cpu_sets(reader), default=None)


def local_ranks(environ: Mapping[str, str]) -> int:
    """Return how many training processes share this host, from torchrun's ``LOCAL_WORLD_SIZE``.

    1 where it is not set or is no positive number.
    """
    ranks = _integer(environ.get("LOCAL_WORLD_SIZE"))
    return ranks if ranks is not None and ranks > 0 else 1


def memory_limits(reader: ProcReader) -> MemoryLimits:
    """Return the machine's memory, the tightest group's limit and use, and what is free."""
    total, available = parse_meminfo(reader.read("/proc/meminfo") or "")
    if total is None or available is None:  # no Linux, or one older than 3.14
        memory = psutil.virtual_memory()
        total, available = total or memory.total, available or memory.available
    # Version 1 writes "unlimited" as a huge number: nothing above the machine's size limits.
    groups = [(limit, used) for limit, used in _memory_groups(reader) if limit < total]
    if not groups:
        return MemoryLimits(total, available, None, None, available, "available memory")
    limit, used = min(groups, key=lambda group: group[0] - group[1])
    room = max(0, limit - used)
    if room < available:
        return MemoryLimits(total, available, limit, used, room, "cgroup limit")
    return MemoryLimits(total, available, limit, used, available, "available memory")


def oom_kills(reader: ProcReader) -> int | None:
    """Return how often the kernel has killed for lack of memory in the process's own group.

    Where the process is in no group that counts (version 2's root has no counter), the kills on
    the whole machine; ``None`` where neither is known. The count only grows: compare it before
    and after.
    """
    kills = group_oom_kills(reader)
    if kills is not None:
        return kills
    return parse_counters(reader.read("/proc/vmstat") or "").get("oom_kill")


def group_oom_kills(reader: ProcReader) -> int | None:
    """Return how often the kernel has killed for memory in the process's own group.

    ``None`` where it is in no group that counts.
    """
    # Only the own group: an ancestor also counts what its other groups lost.
    for controller, name in ((UNIFIED, "memory.events"), ("memory", "memory.oom_control")):
        for group in islice(own_groups(reader, controller), 1):
            count = parse_counters(reader.read(f"{group}/{name}") or "").get("oom_kill")
            if count is not None:
                return count
    return None


def shm_space(path: str = "/dev/shm") -> ShmSpace | None:
    """Return the size of ``/dev/shm`` and what is free, ``None`` where the platform has none."""
    try:
        # getattr: Windows has no statvfs, and its type checkers know that.
        found = getattr(os, "statvfs")(path)  # noqa: B009
    except (AttributeError, OSError):
        return None
    return ShmSpace(found.f_blocks * found.f_frsize, found.f_bfree * found.f_frsize)


def shm_named(path: str = "/dev/shm") -> int | None:
    """Return the bytes of this user's files that have a name there.

    Those of others on the machine are no run's of this user. ``None`` where it cannot be read.
    """
    # getattr: Windows has no such folder, no users by number and no blocks.
    user = getattr(os, "geteuid", lambda: 0)()
    total = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # gone by now
                    found = entry.stat(follow_symlinks=False)
                    if found.st_uid == user:
                        total += 512 * getattr(found, "st_blocks", 0)
    except OSError:
        return None
    return total


def budget(cpus: CpuLimit, memory: MemoryLimits, shm: ShmSpace | None) -> Budget:
    """Return what a measurement may use now: usable CPUs, free memory, free ``/dev/shm``.

    What is put into ``/dev/shm`` takes memory as well, so a need has to fit into both.
    """
    return Budget(cpus=cpus.cpus, ram_bytes=memory.free, shm_bytes=shm.free if shm else None)


def parse_meminfo(text: str) -> tuple[int | None, int | None]:
    """Return MemTotal and MemAvailable of ``/proc/meminfo`` in bytes."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    total, available = (
        _integer(fields.get(name, "").removesuffix("kB")) for name in ("MemTotal", "MemAvailable")
    )
    return (
        None if total is None else total * 1024,
        None if available is None else available * 1024,
    )


def parse_cpu_max(text: str) -> float | None:
    """Return the CPUs that version 2's ``cpu.max`` grants, ``None`` for "max"."""
    quota, _, period = text.strip().partition(" ")
    return _quota(_integer(quota), _integer(period))


def parse_cpu_list(text: str) -> int:
    """Return how many CPUs a list such as ``0-3,8`` names, 0 for an empty or unreadable one."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = _integer(first), _integer(last or first)
        if low is not None and high is not None and high >= low:
            count += high - low + 1
    return count


def parse_counters(text: str) -> dict[str, int]:
    """Return the ``name number`` lines of a control group's file."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: number for name, _, value in pairs if (number := _integer(value)) is not None}


def _quotas(reader: ProcReader) -> Iterator[float]:
    for group in own_groups(reader, UNIFIED):
        cpus = parse_cpu_max(reader.read(f"{group}/cpu.max") or "")
        if cpus is not None:
            yield cpus
    for group in own_groups(reader, "cpu"):
        quota = _integer(reader.read(f"{group}/cpu.cfs_quota_us"))
        cpus = _quota(quota, _integer(reader.read(f"{group}/cpu.cfs_period_us")))
        if cpus is not None:
            yield cpus


def _quota(quota: int | None, period: int | None) -> float | None:
    """Version 1 writes "no quota" as -1."""
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _cpu_sets(reader: ProcReader) -> Iterator[int]:
    for controller, names in (
        (UNIFIED, ("cpuset.cpus.effective",)),
        ("cpuset", ("cpuset.effective_cpus", "cpuset.cpus")),
    ):
        for group in own_groups(reader, controller):
            counts = (parse_cpu_list(reader.read(f"{group}/{name}") or "") for name in names)
            count = next((count for count in counts if count), None)
            if count is not None:
                yield count


def _memory_groups(reader: ProcReader) -> Iterator[tuple[int, int]]:
    """Yield each group's limit and what it uses, without inactive page cache."""
    for controller, limit_name, used_name, cache in (
        (UNIFIED, "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        for group in own_groups(reader, controller):
            limit = _integer(reader.read(f"{group}/{limit_name}"))  # "max" is no number
            used = _integer(reader.read(f"{group}/{used_name}"))
            if limit is not None and used is not None:
                counters = parse_counters(reader.read(f"{group}/memory.stat") or "")
                yield limit, max(0, used - counters.get(cache, 0))


def _integer(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
