"""CPU time: what all programs took on the usable CPUs, and what one process tree took of it.

Over an interval, the rise of `CpuClock.busy_seconds` less the rise of `tree_cpu_seconds` is what
programs outside the tree took. Both count in ticks, commonly of 10 ms for each CPU.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from feedrate.host.files import ProcReader
from feedrate.host.processes import list_descendants, parse_stat

# user, nice, system, irq, softirq and steal; user time includes that of guests. See proc_stat(5).
_BUSY_FIELDS = (1, 2, 3, 6, 7, 8)


def parse_busy_ticks(text: str, cpus: Collection[int]) -> int | None:
    """Return the ticks in which the given CPUs were busy, of a ``/proc/stat`` text.

    Waiting for storage is idle time. ``None`` where one of the CPUs is not listed.
    """
    wanted = {f"cpu{number}" for number in cpus}
    found = [fields for line in text.splitlines() if (fields := line.split())[:1]]
    listed = [fields for fields in found if fields[0] in wanted]
    if not wanted or len(listed) != len(wanted):
        return None
    return sum(int(fields[field]) for fields in listed for field in _BUSY_FIELDS)


class CpuClock:
    """Reads how long the usable CPUs have been busy.

    Args:
        reader: the source of ``/proc``.
        cpus: the CPUs' numbers; by default those this process may run on.
        ticks_per_second: the unit of ``/proc/stat``; by default this machine's.
    """

    def __init__(
        self,
        reader: ProcReader,
        cpus: Collection[int] | None = None,
        ticks_per_second: int | None = None,
    ) -> None:
        self._reader = reader
        self._cpus = frozenset(_own_cpus() if cpus is None else cpus)
        self._ticks = ticks_per_second or _ticks_per_second()

    def busy_seconds(self) -> float | None:
        """Return the CPU seconds since boot, all CPUs added; ``None`` where that is not told."""
        ticks = parse_busy_ticks(self._reader.read("/proc/stat") or "", self._cpus)
        return None if ticks is None or self._ticks is None else ticks / self._ticks


def tree_cpu_seconds(
    reader: ProcReader, pid: int, ticks_per_second: int | None = None
) -> float | None:
    """Return the CPU seconds of a process and all its descendants, ended ones included.

    A child that has ended counts once its parent has waited for it. One that does so between the
    reads may be missed: the next call has it. ``None`` where the process is gone or the platform
    does not tell.
    """
    ticks = ticks_per_second or _ticks_per_second()
    pids = [pid, *(child for child, _ in list_descendants(reader, pid))]
    stats = [parse_stat(reader.read(f"/proc/{number}/stat") or "") for number in pids]
    if ticks is None or stats[0] is None:
        return None
    return sum(stat.ticks for stat in stats if stat is not None) / ticks


def _own_cpus() -> Collection[int]:
    # getattr: not on macOS or Windows, which have no /proc/stat either.
    get = getattr(os, "sched_getaffinity", None)
    return get(0) if get else ()


def _ticks_per_second() -> int | None:
    try:
        # getattr: not on Windows.
        return int(getattr(os, "sysconf")("SC_CLK_TCK"))  # noqa: B009
    except (AttributeError, ValueError, OSError):
        return None
