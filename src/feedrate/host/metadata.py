"""What a suite's file says about the machine: enough to judge its figures, nothing to name it."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.limits import affinity, local_ranks, memory_limits, shm_space, usable_cpus
from feedrate.records import Metadata
from feedrate.version import __version__


def gather(
    target: str,
    argv: tuple[str, ...],
    seed: int | None,
    started_at: str,
    reader: ProcReader | None = None,
) -> Metadata:
    """Return the facts about this machine and this command, without those that torch knows.

    Neither the host's nor a user's name nor a path is looked up; ``target`` and ``argv`` are
    stored as they are given. ``started_at`` is an ISO 8601 time.
    """
    reader = reader or SystemReader()
    cpus = usable_cpus(reader, affinity())
    memory = memory_limits(reader)
    shm = shm_space()
    return Metadata(
        feedrate_version=__version__,
        python_version=platform.python_version(),
        os=f"{platform.system()} {platform.release()} {platform.machine()}".strip(),
        cpu=cpu_model(reader),
        logical_cpus=os.cpu_count() or 1,
        usable_cpus=cpus.cpus,
        usable_cpus_from=cpus.source,
        local_ranks=local_ranks(os.environ),
        ram_bytes=memory.total,
        memory_limit_bytes=memory.cgroup_limit,
        shm_bytes=shm.total if shm else None,
        target=target,
        argv=argv,
        seed=seed,
        started_at=started_at,
        numpy_version=_installed("numpy"),
    )


def cpu_model(reader: ProcReader) -> str:
    """Return the processor's name: from ``/proc/cpuinfo``, or what the platform calls it."""
    for line in (reader.read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.processor() or platform.machine() or "unknown"


def _installed(package: str) -> str | None:
    """Return a package's version without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
