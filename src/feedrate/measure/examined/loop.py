"""What is found out by iterating the loader as it is. Times are seconds, sizes bytes."""

from __future__ import annotations

import msgspec

from feedrate.measure.examined.dataset import Leaf
from feedrate.records import LoaderFacts, RunError

_OFTEN, _PER_BEGIN = 4, 1.5


class Setup(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How the loader is made, beyond `LoaderFacts`.

    ``cpus`` is what one of the ``ranks`` processes on this host may use. ``sampler`` is the
    sampler's type, ``draws`` how many indices it announces. ``collate`` and ``init`` are the names
    of what the user gave, "" where nothing was. ``batched`` tells whether the dataset has
    ``__getitems__``. ``affinity`` is how many CPUs this process may run on now, ``affinity_before``
    how many it might before the target was imported.
    """

    facts: LoaderFacts
    cpus: float
    ranks: int = 1
    accelerator: bool = False
    sampler: str = ""
    draws: int | None = None
    collate: str = ""
    init: str = ""
    drop_last: bool = False
    batched: bool = False
    elastic: bool = False
    default_start_method: str = ""
    unguarded: str = ""
    affinity: int | None = None
    affinity_before: int | None = None


class Copies(msgspec.Struct, frozen=True, kw_only=True):
    """The copies to an accelerator that one step made of tensors in host memory.

    ``asked`` of the ``count`` said non_blocking=True; ``pageable`` of those were not pinned, with
    ``bytes`` in all.
    """

    count: int
    asked: int
    pageable: int
    bytes: int


class Loop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loader as it is, iterated for a while, with the step where there is one.

    ``startup`` is the time from ``iter()`` to the first batch; ``seconds``, ``items`` and
    ``batches`` count from there to where the first epoch ended or was left. ``epoch_seconds`` are
    whole epochs, with their start. ``worker_threads`` is the most threads that a worker had,
    ``worker_cpu_share`` the CPU seconds that one took each second.
    ``later_startup`` is the start of a second epoch. ``wait_cpu_share`` is the CPU time of the main
    thread over that which it waits. ``device_bytes`` is the most memory that was taken on an
    accelerator, ``None`` where there is none. ``copies`` are those of one step.
    """

    startup: float
    batches: int
    items: int
    seconds: float
    waits: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()
    epoch_seconds: tuple[float, ...] = ()
    epoch_items: tuple[int, ...] = ()
    epoch_batches: tuple[int, ...] = ()
    batch_bytes: int = 0
    batch_tensors: int = 0
    leaves: tuple[Leaf, ...] = ()
    has_step: bool = False
    worker_threads: int | None = None
    worker_cpu_share: float | None = None
    later_startup: float | None = None
    wait_cpu_share: float | None = None
    device_bytes: int | None = None
    copies: Copies | None = None


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loop failed, died or hung, after so many batches; ``busy`` where it still computed.

    ``seconds`` is how long nothing came, where it hung; ``starting`` tells that an epoch had begun
    and had no batch yet.
    """

    error: RunError
    batches: int
    seconds: float = 0.0
    busy: bool = False
    starting: bool = False
    exit_codes: tuple[int, ...] = ()


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How often a script began to iterate its loader, for how many batches in all.

    ``seconds`` is what it took on the average from there to the first batch. ``kept`` is what a
    batch takes in a loop over one iterator, without the step; ``None`` where that was not tried.
    """

    times: int
    batches: int
    seconds: float
    kept: float | None = None

    @property
    def is_often(self) -> bool:
        """Whether nearly every batch had an iterator of its own."""
        return self.times >= _OFTEN and self.batches <= _PER_BEGIN * self.times
