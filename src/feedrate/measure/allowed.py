"""What a tune may use of this machine now: the least of what is free and what the user allows."""

from __future__ import annotations

import os

from feedrate.host.files import SystemReader
from feedrate.host.limits import affinity, local_ranks, memory_limits, shm_space, usable_cpus
from feedrate.plan.tuning import MOST_WORKERS, Limits
from feedrate.settings import Budget


def allowed(
    seconds: float,
    *,
    max_workers: int | None = None,
    max_ram: int | None = None,
    max_shm: int | None = None,
) -> Limits:
    """Return the limits of a tune of ``seconds``; what is free is shared among the host's ranks.

    Args:
        seconds: the time budget.
        max_workers: by default twice the usable CPUs, and `MOST_WORKERS` where these are few.
        max_ram: bytes for the main process and all workers together.
        max_shm: bytes in ``/dev/shm``.
    """
    reader = SystemReader()
    ranks = local_ranks(os.environ)
    cpus = usable_cpus(reader, affinity()).cpus / ranks
    shm = shm_space()
    return Limits(
        seconds=seconds,
        most_workers=max_workers or max(MOST_WORKERS, int(2 * cpus)),
        free=Budget(
            cpus=cpus,
            ram_bytes=_least(memory_limits(reader).free // ranks, max_ram),
            shm_bytes=_least(shm.free // ranks if shm is not None else None, max_shm),
        ),
    )


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
