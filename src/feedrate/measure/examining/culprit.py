"""Which item it is that fails, dies or hangs, when the loop has met it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader

from feedrate.measure.examined import BadItem
from feedrate.measure.examining.indices import choose, is_plain
from feedrate.measure.examining.keeping import anonymous_bytes
from feedrate.measure.examining.probe import AVAILABLE, Place, Tell, Told, run_probe
from feedrate.measure.target import is_iterable_dataset

_SECONDS = 6.0
STALL_SECONDS = 4.0
"""After how long an item that does not come is given up. Not in the loop, which has more time."""
_KEPT_AT_MOST = 1 << 30
"""Bytes that items may keep before reading on would harm the machine."""


def find_culprit(
    loader: DataLoader[Any], suspect: Told | None, median: float, left: float
) -> BadItem | None:
    """Return the item that fails alone, read in order in a probe; ``None`` where none does.

    Args:
        loader: a loader whose loop has failed.
        suspect: a probe that has met such an item already.
        median: the usual seconds of an item, 0 where they are not known.
        left: the seconds that are left.
    """

    def read(_: Tell, place: Place) -> None:
        before = anonymous_bytes()
        dataset: Any = loader.dataset
        for number, index in enumerate(_indices(loader)):
            place.at = index if isinstance(index, int) else number
            if not is_iterable_dataset(loader):
                dataset[index]
            if number % 16 == 0 and anonymous_bytes() - before > _KEPT_AT_MOST:
                return

    if suspect is None and not AVAILABLE:
        return None
    told = suspect or run_probe(read, min(_SECONDS, left), stall=STALL_SECONDS)
    if told.end == "done" or told.at < 0:
        return None
    if told.end == "hung" and told.stood <= max(2.0, 100 * median):
        return None  # it was only not through in time
    return BadItem(
        index=told.at,
        end=told.end,
        headline=told.headline,
        text=told.text,
        seconds=told.stood,
    )


def _indices(loader: DataLoader[Any]) -> Iterable[Any]:
    dataset: Any = loader.dataset
    if is_iterable_dataset(loader):
        return (number for number, _ in enumerate(dataset))
    return range(len(dataset)) if is_plain(loader) else choose(loader, 512)
