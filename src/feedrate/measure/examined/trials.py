"""What changes of the loader come to, each tried against the loader as it is."""

from __future__ import annotations

from typing import Literal

import msgspec

Question = Literal[
    "no_workers",
    "workers",
    "fewer",
    "more",
    "one_thread",
    "more_threads",
    "all_cpus",
    "less_prefetch",
    "kept",
]


class Duel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loader against itself with one thing changed: items/s of alternating short windows.

    ``epochs`` tells that each window is a whole epoch with its start, where the user's are that
    short. ``value`` is what the changed setting was set to.
    """

    question: Question
    value: int
    own: tuple[float, ...]
    other: tuple[float, ...]
    epochs: bool = False

    @property
    def gain(self) -> float:
        """Return the median rate of the other over that of the own."""
        return _median(self.other) / _median(self.own)

    @property
    def is_clear(self) -> bool:
        """Tell whether each window of the other was faster than each of the own."""
        return min(self.other) > max(self.own)


def _median(values: tuple[float, ...]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Starts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the start of workers takes: as it is, with a dataset of nothing, and when kept.

    ``whole`` is false where the start was not waited for to its end: ``own`` is the least then.
    """

    own: float
    whole: bool = True
    empty: float | None = None
    kept: float | None = None


class SamplerCost(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first index of an epoch: how long it takes, and the memory that it takes."""

    seconds: float
    bytes: int


class Stale(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Attributes that ``method`` changed, and those of them that kept workers did not see."""

    method: str
    changed: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
