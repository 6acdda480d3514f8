"""From single looks to one value for each epoch, taken at the same phase of each.

Within an epoch memory moves with what is being loaded: batches that wait, an item that is being
decoded. So an epoch's value is the least of those looks that every epoch has at the same phase:
what a leak keeps is there at all times, and what comes and goes is not.

Where there are too few epochs (they may take hours) the watch is cut into stretches of equally many
items instead. Where workers live for one epoch only, growth does not show from epoch to epoch but
over each worker's life: `life_series` lays those lives over one another, up to the last phase
before the end, for at the end no batch is in flight and what those held is given back. The more of
them were looked at, the more parts of a life are told apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from feedrate.analysis.figures import Figure
from feedrate.analysis.growth import FEWEST_EPOCHS
from feedrate.memory_records import MemoryLook, MemoryWatch

BINS = 9
"""So many phases of an epoch are told apart, and its end."""
STRETCHES = 12
_LIFE = (BINS - 0.5) / BINS
"""A life is followed up to here."""
_PARTS = (36, 18)
_LOOKS_A_PART = 3
_LOOKS_A_STRETCH = 2

Stretch = Literal["epoch", "stretch", "life"]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One value for each stretch of a watch, and how many items the loop took in one.

    ``per`` says what a stretch is: an "epoch", or several short ones of which one was looked at; a
    "stretch" of equally many items, where there are too few epochs; or a part of a worker's "life",
    where it lives for one epoch: a ninth of it, which ``cut`` cuts into so many. ``blur`` is how
    far the figure usually rises between two looks within a stretch: by so much a value may lie
    above the lowest that nobody looked at.
    """

    values: tuple[float, ...]
    items: float
    per: Stretch
    cut: int = 1
    blur: float = 0.0


def epoch_items(watch: MemoryWatch) -> float | None:
    """Return how many items the loop took in an epoch, ``None`` where none came to its end."""
    ends = [
        look for look in watch.looks if look.phase == 1.0 and look.epoch < watch.complete_epochs
    ]
    if not ends:
        return None
    last = max(ends, key=lambda look: look.epoch)
    return last.items / (last.epoch + 1)


def epoch_seconds(watch: MemoryWatch) -> float | None:
    """Return what an epoch after the first took, as the median; ``None`` without two ends."""
    ends = sorted(
        (look.epoch, look.at)
        for look in watch.looks
        if look.phase == 1.0 and look.epoch < watch.complete_epochs
    )
    apart = [(b - a) / (j - i) for (i, a), (j, b) in itertools.pairwise(ends)]
    return float(np.median(apart)) if apart else None


def series(watch: MemoryWatch, figure: Figure) -> Series | None:
    """Return a figure's series, ``None`` where no look tells it.

    By epochs where there are enough of them for a verdict, else by stretches where that gives more
    values.
    """
    looks = [(look, value) for look in watch.looks if (value := figure(look)) is not None]
    if not looks:
        return None
    by_epoch = _by_epoch(looks, watch)
    if by_epoch is not None and len(by_epoch.values) >= FEWEST_EPOCHS:
        return by_epoch
    cut = _by_stretch(looks)
    if by_epoch is None or (cut is not None and len(cut.values) > len(by_epoch.values)):
        return cut
    return by_epoch


def life_series(watch: MemoryWatch, figure: Figure) -> Series | None:
    """Return what a figure gains over an epoch, from part to part: the median of the epochs.

    Not all need looks in the same parts. Each is held against its end, for at its first batch some
    workers are still starting; the end itself is no part of it: the batches in flight are gone by
    then, with their descriptors and memory. Where no end could be seen it is held against its
    first look. ``None`` where no epoch is complete or some ninth has no look in any.
    """
    items = epoch_items(watch)
    lives: dict[int, list[tuple[float, float]]] = {}
    for look in watch.looks:
        if look.epoch < watch.complete_epochs and look.workers:
            value = figure(look)
            if value is not None:
                lives.setdefault(look.epoch, []).append((look.phase, value))
    ended = [life for life in lives.values() if life[-1][0] == 1.0]
    at = -1 if ended else 0
    gains = [
        (phase, value - life[at][1]) for life in ended or lives.values() for phase, value in life
    ]
    for parts, fewest in (*((parts, _LOOKS_A_PART) for parts in _PARTS), (BINS, 1)):
        rows: list[list[tuple[float, float]]] = [[] for _ in range(parts)]
        for phase, gain in gains:
            if phase < _LIFE:
                rows[int(phase / _LIFE * parts)].append((phase, gain))
        if items is not None and all(len(row) >= fewest for row in rows):
            places, values = np.array([np.median(row, axis=0) for row in rows]).T
            apart = float(places[-1] - places[0]) / (parts - 1)
            return Series(
                values=tuple((values - values[0]).tolist()),
                items=items * apart,
                per="life",
                cut=parts // BINS,
            )
    return None


def workers_stay(watch: MemoryWatch) -> bool:
    """Whether workers live on from epoch to epoch, by their process numbers."""
    last: dict[int, set[int]] = {}
    for look in watch.looks:
        if look.workers:
            last.setdefault(look.epoch, set()).update(worker.pid for worker in look.workers)
    epochs = sorted(last)
    kept = [bool(last[i] & last[j]) for i, j in itertools.pairwise(epochs)]
    return sum(kept) * 2 > len(kept) if kept else watch.persistent_workers


def _bin(phase: float) -> int:
    return round(phase * BINS)


def early_series(watch: MemoryWatch, figure: Figure) -> Series | None:
    """Return a figure's series over the first epochs, as long as each was looked at.

    What fills up does so there, and later epochs may be looked at seldom.
    """
    epochs = sorted({look.epoch for look in watch.looks if look.epoch < watch.complete_epochs})
    count = next((n for n, epoch in enumerate(epochs) if n != epoch), len(epochs))
    looks = [
        (look, value)
        for look in watch.looks
        if look.epoch < count and (value := figure(look)) is not None
    ]
    return _by_epoch(looks, watch) if looks else None


def _by_epoch(looks: Sequence[tuple[MemoryLook, float]], watch: MemoryWatch) -> Series | None:
    found: dict[int, dict[int, float]] = {}
    for look, value in looks:
        if look.epoch < watch.complete_epochs:
            least = found.setdefault(look.epoch, {})
            place = _bin(look.phase)
            least[place] = min(value, least.get(place, value))
    items = epoch_items(watch)
    common = sorted(set.intersection(*map(set, found.values()))) if found else []
    if items is None or not common:
        return None
    looked_at, apart = _evenly(sorted(found))
    epochs = [found[epoch] for epoch in looked_at]
    return Series(
        values=tuple(min(least[place] for place in common) for least in epochs),
        items=items * apart,
        per="epoch",
        blur=_blur([[least[place] for place in sorted(least)] for least in epochs]),
    )


def _evenly(epochs: Sequence[int]) -> tuple[list[int], int]:
    """Return those of the epochs that lie equally far apart, and how far.

    Where epochs are short not each is looked at, and the first few more closely than the others.
    The last of all is looked at whichever it is.
    """
    apart = max((b - a for a, b in itertools.pairwise(epochs)), default=1)
    there = set(epochs)
    chains = []
    for last in epochs[-2:]:
        chosen = [last]
        while chosen[-1] - apart in there:
            chosen.append(chosen[-1] - apart)
        chains.append(chosen[::-1])
    return max(chains, key=len), apart


def _by_stretch(looks: Sequence[tuple[MemoryLook, float]]) -> Series | None:
    first, last = looks[0][0].items, looks[-1][0].items
    count = min(STRETCHES, len(looks) // _LOOKS_A_STRETCH)
    if last <= first or count < 1:
        return None
    length = (last - first) / count
    rows: list[list[float]] = [[] for _ in range(count)]
    for look, value in looks:
        rows[min(int((look.items - first) / length), count - 1)].append(value)
    if not all(rows):
        return None
    return Series(
        values=tuple(min(row) for row in rows), items=length, per="stretch", blur=_blur(rows)
    )


def _blur(rows: Sequence[Sequence[float]]) -> float:
    """Return the usual rise from look to look within a stretch, where there is one.

    The median and not the largest: one rise at the same phase of each epoch, as when the loader
    begins to fetch ahead, blurs nothing.
    """
    rises = [b - a for row in rows for a, b in itertools.pairwise(row) if b > a]
    return float(np.median(rises)) if rises else 0.0
