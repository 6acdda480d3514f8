"""What is known besides a text: this machine's figures, and how the program that failed ended."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
from dataclasses import dataclass

from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.limits import (
    MemoryLimits,
    ShmSpace,
    affinity,
    memory_limits,
    oom_kills,
    shm_space,
    usable_cpus,
)
from feedrate.measure.versions import versions


@dataclass(frozen=True, slots=True)
class HostFacts:
    """This machine, now. ``None`` where the platform does not tell, or where there is no limit.

    ``memory_kills`` counts what the kernel has killed for memory in this process's control group;
    ``descriptors`` is what ``ulimit -n`` allows, ``descriptors_most`` what it can be raised to;
    ``processes`` is ``ulimit -u``; ``maps`` how many mappings a process may have.
    ``start_method`` is Python's default on this platform.
    """

    system: str
    python_version: str
    start_method: str
    usable_cpus: float
    memory: MemoryLimits
    torch_version: str | None = None
    shm: ShmSpace | None = None
    memory_kills: int | None = None
    descriptors: int | None = None
    descriptors_most: int | None = None
    processes: int | None = None
    maps: int | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that a worker was asked for and has not delivered: its number and its indices."""

    worker: int
    batch: int
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What is known about the program that failed, beyond what it printed.

    ``exit_codes`` are those of its dead workers, negative for a signal as in `subprocess`.
    ``memory_kills`` is by how many the kernel's count rose while it ran. ``descriptors`` is the
    highest number of open descriptors seen in one of its processes. ``pending`` are batches that
    workers still held, the oldest first.
    """

    exit_codes: tuple[int, ...] = ()
    memory_kills: int | None = None
    descriptors: int | None = None
    pending: tuple[Pending, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known besides the text."""

    host: HostFacts | None = None
    program: ProgramFacts = ProgramFacts()


def gather_host(reader: ProcReader | None = None) -> HostFacts:
    """Return this machine's figures. torch is not imported."""
    reader = reader or SystemReader()
    soft, hard = _limit("RLIMIT_NOFILE")
    return HostFacts(
        system=platform.system(),
        python_version=platform.python_version(),
        # documented to begin with the default; asking for the method itself would fix it
        start_method=multiprocessing.get_all_start_methods()[0],
        usable_cpus=usable_cpus(reader, affinity()).cpus,
        memory=memory_limits(reader),
        torch_version=versions().get("torch"),
        shm=shm_space(),
        memory_kills=oom_kills(reader),
        descriptors=soft,
        descriptors_most=hard,
        processes=_limit("RLIMIT_NPROC")[0],
        maps=_integer(reader.read("/proc/sys/vm/max_map_count")),
    )


def _limit(name: str) -> tuple[int | None, int | None]:
    """Return a resource's soft and hard limit; ``None`` for none, and where they are not told."""
    if sys.platform == "win32" or os.name == "nt":
        return None, None
    import resource

    number = getattr(resource, name, None)
    if number is None:
        return None, None
    soft, hard = (
        None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(number)
    )
    return soft, hard


def _integer(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
