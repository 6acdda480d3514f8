"""What benchmarks/transport.py measures: the batches, the peers, and one measured value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

KIB, MIB = 1 << 10, 1 << 20
WORKERS = (1, 2)

MEMCPY, FRESH, DATASET = "memcpy", "fresh", "dataset"
"""What the limits' process measures: a copy into touched memory, one into fresh memory, and what
the dataset itself takes to hand out its batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One kind of batch: the bytes of each of its tensors."""

    name: str
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all of them."""
        return sum(self.sizes)

    @property
    def goal(self) -> Literal["time", "memcpy"] | None:
        """Which of the two goals holds for it."""
        if self.bytes < MIB:
            return "time"
        return "memcpy" if self.bytes > MIB else None


def _even(size: int, tensors: int) -> tuple[int, ...]:
    return (size // tensors,) * tensors


BATCHES = (
    Batch("4 KiB, 1 tensor", _even(4 * KIB, 1)),
    Batch("4 KiB, 16 tensors", _even(4 * KIB, 16)),
    Batch("4 KiB, 64 tensors", _even(4 * KIB, 64)),
    Batch("64 tensors of 64 B to 4 KiB", tuple(64 << i % 7 for i in range(64))),
    Batch("1 MiB, 2 tensors", _even(MIB, 2)),
    Batch("40 MiB, 2 tensors", _even(40 * MIB, 2)),
    Batch("150 MiB, 2 tensors", _even(150 * MIB, 2)),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to bring batches from workers; ``package`` is what has to be had from PyPI."""

    key: str
    title: str
    package: str | None = None


OURS = "arena"
PEERS = (
    Peer("torch", "torch's DataLoader"),
    Peer(OURS, "feedrate.DataLoader"),
    Peer("files", 'feedrate, transport="torch"'),
    Peer("torchdata", "torchdata's StatefulDataLoader", "torchdata"),
    Peer("spdl", "SPDL's PyTorch-style loader", "spdl-core"),
    Peer("pool", "SPDL's segment pool", "spdl-core"),
    Peer("ring", "ring of NumPy arrays"),
)
LIMITS = Peer("limits", "limits")


class Value(msgspec.Struct, frozen=True, tag="value"):
    """What one batch took in one round: wall seconds, and CPU seconds of the main process."""

    peer: str
    batch: str
    workers: int
    seconds: float
    cpu_seconds: float


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """Why a peer has no value for a batch, or (without one) for all."""

    peer: str
    reason: str
    batch: str | None = None
    workers: int | None = None
