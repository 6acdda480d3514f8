"""Whether memory stays flat: looks at the loop's process, and a test of their slopes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import theilslopes

from feedrate.host.memory import parse_smaps_rollup

MIB = 2**20
ARENA = "memfd:feedrate"
LEAST_LOOKS = 6
_SLACK_DESCRIPTORS = 16
_WARM_UP = 3
"""The first of so many parts of the looks is left out: arenas and allocators still grow."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the loop's process. Sizes are bytes.

    ``arena`` is what the arenas that it has mapped take, whoever wrote them; ``retained`` what the
    batches hold that it keeps on purpose; ``shared`` its proportional share of shared memory.
    ``batches`` is how many had come.
    """

    at: float
    batches: int
    arena: int
    retained: int
    private: int
    shared: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Trend:
    """How a figure went over the looks after the warm-up: a Theil–Sen slope, 95 % interval.

    ``gain`` is the slope over the whole time; up to ``allowed`` it is taken for chance.
    """

    slope: float
    low: float
    high: float
    gain: float
    allowed: float

    @property
    def grows(self) -> bool:
        """Whether it surely grew, and by more than chance moves it."""
        return self.low > 0 and self.gain > self.allowed


def look(at: float, batches: int, retained: int) -> Look:
    """Look at this process; it takes some milliseconds."""
    reading = parse_smaps_rollup(Path("/proc/self/smaps_rollup").read_text("utf-8"))
    return Look(
        at=at,
        batches=batches,
        arena=arena_bytes(),
        retained=retained,
        private=reading.anonymous or 0,
        shared=reading.pss_shmem or 0,
        descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - no paths are needed
    )


def arena_bytes() -> int:
    """Return the bytes of all arenas that this process has mapped: pages that were written."""
    sizes: dict[int, int] = {}
    with os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if ARENA in os.readlink(entry.path):  # noqa: PTH115
                    status = os.stat(entry.path)  # noqa: PTH116
                    sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def mapped_arenas() -> int:
    """Return how many mappings of arenas there are."""
    return Path("/proc/self/maps").read_text("utf-8", "replace").count(ARENA)


def trend(times: Sequence[float], values: Sequence[float], allowed: float) -> Trend:
    """Return the trend of what was looked at; ``allowed`` is the least gain that counts.

    A tenth of the median counts for chance in any case.

    Raises:
        ValueError: there are fewer than `LEAST_LOOKS`.
    """
    if len(times) < LEAST_LOOKS:
        raise ValueError(f"{len(times)} looks say nothing of a trend: take a longer run")
    skip = len(times) // _WARM_UP
    late, after = list(values[skip:]), list(times[skip:])
    slope, _, low, high = map(float, theilslopes(late, after, 0.95))
    median = sorted(late)[len(late) // 2]
    gain = slope * (after[-1] - after[0])
    return Trend(slope, low, high, gain, max(allowed, 0.1 * median))


def trends(looks: Sequence[Look], slack_bytes: int) -> dict[str, Trend]:
    """Return the trends of arena, shared and private memory, and descriptors."""
    times = [each.at for each in looks]
    return {
        "arena": trend(times, [each.arena for each in looks], slack_bytes),
        "shared": trend(times, [each.shared for each in looks], slack_bytes),
        "private": trend(times, [each.private for each in looks], slack_bytes),
        "descriptors": trend(times, [each.descriptors for each in looks], _SLACK_DESCRIPTORS),
    }
