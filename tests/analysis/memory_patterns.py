"""Series of one value for each epoch, as memory really moves: harmless ones, and growth.

Each takes a random generator and a count of epochs, and returns bytes. Sizes are chosen at random
within what is usual for a process that loads images.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

KIB = 1024
MIB = 1024**2

Values = NDArray[np.float64]
Pattern = Callable[[np.random.Generator, int], Values]

BASE = 300.0 * MIB


def still(rng: np.random.Generator, count: int) -> Values:
    return np.full(count, BASE) + 4 * KIB * rng.integers(0, 8, count)


def noise(rng: np.random.Generator, count: int) -> Values:
    return BASE + rng.normal(0, 2 * MIB, count)


def warm_up(rng: np.random.Generator, count: int) -> Values:
    """What fills within the first epochs, ever slower."""
    lasting = rng.uniform(0.2, 1.5)
    rise = rng.uniform(5, 200) * MIB
    return BASE + rise * (1 - np.exp(-np.arange(count) / lasting)) + _few_pages(rng, count)


def bounded_cache(rng: np.random.Generator, count: int) -> Values:
    """A cache that is filled at a steady pace, up to its limit."""
    full_after = rng.uniform(0.1, 2.5)
    return BASE + 40 * MIB * np.minimum(1, np.arange(count) / full_after) + _few_pages(rng, count)


def one_off(rng: np.random.Generator, count: int) -> Values:
    """Something that is set up once, or twice, at any time."""
    times = rng.integers(0, count, rng.integers(1, 3))
    steps = [(np.arange(count) >= time) * rng.uniform(1, 50) * MIB for time in times]
    return BASE + sum(steps) + _few_pages(rng, count)


def collector(rng: np.random.Generator, count: int) -> Values:
    """Reference cycles that pile up until the collector runs: a sawtooth's lowest in each epoch."""
    period = rng.uniform(0.3, 5)
    looks = np.arange(8 * count) / 8 / period + rng.random()
    return BASE + 30 * MIB * (looks % 1).reshape(count, 8).min(axis=1)


BLUR = {"collector": 30 * MIB / 8}
"""How far a pattern rises from look to look, of eight in an epoch."""


def kept_pages(rng: np.random.Generator, count: int) -> Values:
    """An allocator that keeps the pages of the largest epoch until now."""
    peaks = rng.lognormal(0, 0.2, count) * 20 * MIB
    return BASE + np.maximum.accumulate(peaks)


def wandering(rng: np.random.Generator, count: int) -> Values:
    """Fluctuation in which an epoch resembles the one before it."""
    values = np.zeros(count)
    for i in range(1, count):
        values[i] = 0.6 * values[i - 1] + rng.normal(0, 2 * MIB)
    return BASE + values


def spikes(rng: np.random.Generator, count: int) -> Values:
    return BASE + (rng.random(count) < 0.2) * rng.uniform(10, 100, count) * MIB


HARMLESS: dict[str, Pattern] = {
    made.__name__: made
    for made in (
        still, noise, warm_up, bounded_cache, one_off, collector, kept_pages, wandering, spikes,
    )
}  # fmt: skip


def leak(per_epoch: float) -> Pattern:
    return lambda rng, count: BASE + per_epoch * np.arange(count) + _few_pages(rng, count)


def leak_with(other: Pattern, per_epoch: float) -> Pattern:
    return lambda rng, count: other(rng, count) + per_epoch * np.arange(count)


def leak_by_steps(rng: np.random.Generator, count: int) -> Values:
    """Growth that is taken from the system a large piece at a time, one every other epoch."""
    return BASE + 8 * MIB * (np.arange(count) // 2) + _few_pages(rng, count)


def leaking_list(rng: np.random.Generator, count: int) -> Values:
    """1,000 objects of 200 bytes an epoch, and the list that holds them, which grows by eighths."""
    held = 1000.0 * np.arange(1, count + 1)
    places = np.array([8 * 1.125 ** np.ceil(np.log(each) / np.log(1.125)) for each in held])
    return BASE + 200 * held + places + _few_pages(rng, count)


def _few_pages(rng: np.random.Generator, count: int) -> Values:
    return 4.0 * KIB * rng.integers(0, 3, count)
