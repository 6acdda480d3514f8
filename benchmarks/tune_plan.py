"""What benchmarks/tune_regret.py measures, and the regret that follows. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

WORKERS = tuple(range(17))
FEW_WORKERS = (0, 1, 2, 4, 12)
PREFETCH = (2, 4, 8)
FEW_PREFETCH = (2, 4)

OURS = "feedrate"
LOADTUNE, HELPER = "loadtune", "dataloader-param-helper"
PEERS = {
    LOADTUNE: ("loadtune==0.3.0",),
    HELPER: ("dataloader-param-helper==0.1.1", "py-cpuinfo==9.0.0"),
}
"""The tuners on PyPI: what has to be had for each beside torch, NumPy and psutil."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """What a tuner may choose; without workers there is no prefetching, and nothing to order."""

    workers: int
    prefetch: int | None = None
    in_order: bool = True

    def __str__(self) -> str:
        parts = [f"{self.workers} worker{'' if self.workers == 1 else 's'}"]
        if self.prefetch not in (None, PREFETCH[0]):
            parts.append(f"{self.prefetch} each")
        if not self.in_order:
            parts.append("any order")
        return ", ".join(parts)


NOTHING_SET = Setting(0)
"""What a loader has on which nobody set anything: all tuners begin with it."""


def setting(workers: int, prefetch: int | None, in_order: bool = True) -> Setting:
    """Return the setting as torch has it: the prefetch factor is 2 where none is given."""
    if not workers:
        return NOTHING_SET
    return Setting(workers, prefetch or PREFETCH[0], in_order)


def all_settings(workers: Sequence[int], prefetch: Sequence[int]) -> list[Setting]:
    """Return each setting of a grid once."""
    every = itertools.product(workers, prefetch, (True, False))
    return list(dict.fromkeys(setting(*each) for each in every))


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is measured.

    ``seconds`` are those of one value, ``rounds`` how often the finalists are measured again,
    ``peer_seconds`` how long a peer may take on one kind of work: twice what tune is given.
    """

    workers: tuple[int, ...]
    prefetch: tuple[int, ...]
    seconds: float
    rounds: int
    peer_seconds: float


FULL = Pace(WORKERS, PREFETCH, 2.0, 3, 120.0)
QUICK = Pace(FEW_WORKERS, FEW_PREFETCH, 0.5, 1, 60.0)


@dataclass(frozen=True, slots=True)
class Tried:
    """What one tuner did: the seconds it took, what it chose, and what it said.

    Without a ``chosen`` it has chosen nothing, and ``said`` is the reason. ``parts`` are the
    seconds of its parts, where it tells.
    """

    tuner: str
    seconds: float
    chosen: Setting | None
    said: str
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Result:
    """All that was measured on one kind of work.

    ``grid`` has each setting's rate of the one pass, ``grid_seconds`` is what that pass took.
    ``again`` has the finalists' rates, one a round.
    """

    work: str
    grid: Mapping[Setting, float]
    grid_seconds: float
    tried: tuple[Tried, ...]
    again: Mapping[Setting, tuple[float, ...]]

    @property
    def best(self) -> Setting:
        """The better of the grid's two best, by their medians when measured again."""
        return max(top(self.grid), key=lambda each: median(self.again[each]))

    def by(self, tuner: str) -> Tried | None:
        """Return what a tuner did, ``None`` where it was not asked."""
        return next((each for each in self.tried if each.tuner == tuner), None)

    def regret(self, tuner: str) -> float | None:
        """Return how far below the grid's best a tuner's choice is, as a share; below 0: faster.

        The median of the rounds, in each of which both were measured. ``None`` without a choice.
        """
        tried = self.by(tuner)
        if tried is None or tried.chosen is None:
            return None
        pairs = zip(self.again[tried.chosen], self.again[self.best], strict=True)
        return 1 - median(chosen / best for chosen, best in pairs)


def top(grid: Mapping[Setting, float], count: int = 2) -> list[Setting]:
    """Return the fastest settings of a grid.

    One value each says too little to tell the first from the second.
    """
    return sorted(grid, key=lambda each: grid[each], reverse=True)[:count]


def finalists(grid: Mapping[Setting, float], tried: Iterable[Tried]) -> list[Setting]:
    """Return what is measured again: the grid's best, and whatever was chosen."""
    chosen = [each.chosen for each in tried if each.chosen is not None]
    return list(dict.fromkeys([*top(grid), *chosen]))


def rotated(settings: Sequence[Setting], turn: int) -> list[Setting]:
    """Return the settings, beginning with another one in each turn."""
    at = turn % len(settings)
    return [*settings[at:], *settings[:at]]
