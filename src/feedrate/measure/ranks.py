"""A tune that torchrun, or what works as it does, has started once for each rank.

Ranks that are tuned together would have to run every session in step, and end each in the middle of
what they reduce together. So one rank is measured alone: the child is a group of one, on the
CPUs that are its share of the host. Its batches, its step and its workers are those of a rank among
others; not what ranks wait for each other, nor storage that they share.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Mapping

import msgspec

from feedrate.host.files import SystemReader
from feedrate.host.limits import local_ranks, usable_cpus

_ALONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "ROLE_RANK": "0",
    "ROLE_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    # torchrun's own store is kept between children, with what the ranks of the last one wrote
    "TORCHELASTIC_USE_AGENT_STORE": "False",
}
"""What torchrun tells a process that is the only one; see its documentation under "Environment
Variables". ``LOCAL_RANK`` stays: it names the device. ``TORCHELASTIC_ERROR_FILE`` goes, which is
where a rank leaves the error that it ended with."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """Which of how many ranks this process is, from 0 on."""

    number: int
    ranks: int


def rank_of(environ: Mapping[str, str]) -> Rank | None:
    """Return which rank torchrun started this process as; ``None`` if it was not started so."""
    try:
        number, ranks = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None
    return Rank(number=number, ranks=ranks) if 0 <= number < ranks else None


def become_alone() -> None:
    """Make this process one rank of its host by itself, for all that the target asks and starts."""
    keep_to_share()
    if rank_of(os.environ) is None:
        return
    os.environ.update(alone(os.environ, _free_port()))
    os.environ.pop("TORCHELASTIC_ERROR_FILE", None)


def alone(environ: Mapping[str, str], port: int) -> dict[str, str]:
    """Return the variables to change so that a rank is a group of one, met at ``port``."""
    named = {name: value for name, value in _ALONE.items() if name in environ}
    return named | {"MASTER_ADDR": _ALONE["MASTER_ADDR"], "MASTER_PORT": str(port)}


def keep_to_share() -> None:
    """Leave the CPUs of the host's other ranks alone, where the platform can do that."""
    ranks = local_ranks(os.environ)
    get, set_to = (getattr(os, f"sched_{way}affinity", None) for way in ("get", "set"))
    if ranks == 1 or get is None or set_to is None:
        return
    cpus = get(0)
    usable = usable_cpus(SystemReader(), len(cpus)).cpus
    with contextlib.suppress(OSError):
        set_to(0, share_of(cpus, usable, ranks, _local_rank(os.environ)))


def share_of(cpus: Iterable[int], usable: float, ranks: int, local_rank: int) -> set[int]:
    """Return which CPUs are one rank's, one at least.

    Args:
        cpus: the numbers of those that all of them may run on.
        usable: how many of these can be used at once, a fraction under a quota.
        ranks: how many share them.
        local_rank: which of them, from 0 on.
    """
    known = sorted(cpus)
    count = max(1, round(min(usable, len(known)) / ranks))
    first = local_rank * count % len(known)
    return {known[(first + at) % len(known)] for at in range(count)}


def _local_rank(environ: Mapping[str, str]) -> int:
    try:
        return max(0, int(environ.get("LOCAL_RANK", "0")))
    except ValueError:
        return 0


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
