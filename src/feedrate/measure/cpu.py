"""CPU seconds of a loader's workers, read from the process that started them."""

from __future__ import annotations

import sys

import psutil

if sys.platform != "win32":
    import resource


def worker_cpu_seconds() -> float | None:
    """Return the CPU seconds of all descendants so far, ended and reaped ones included.

    The difference of two readings is what the workers took in between. Living processes are
    counted in clock ticks (10 ms), ended ones exactly. ``None`` where the platform keeps no
    account of ended children (Windows).
    """
    if sys.platform == "win32":
        return None
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = reaped.ru_utime + reaped.ru_stime
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
