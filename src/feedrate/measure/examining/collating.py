"""What the collate function takes of a batch, and what torch's own would take for the same."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, default_collate

from feedrate.measure.examining.digests import UNKNOWN, digest

_MOST = 256
_MOST_SECONDS = 1.0
_TURNS = 3


@dataclass(frozen=True, slots=True)
class Collating:
    """Seconds for ``items`` of them; ``default`` where torch's own makes the same batch."""

    items: int
    seconds: float
    default: float | None


def time_collate(
    loader: DataLoader[Any], indices: Iterable[Any], median: float
) -> Collating | None:
    """Return the least of a few calls, ``None`` where there is no batch or no time for one.

    To be called in a probe. An error of the collate function is not told: the loop meets it.
    """
    size, collate = loader.batch_size, loader.collate_fn
    if size is None or collate is None or min(size, _MOST) * median > _MOST_SECONDS:
        return None
    dataset: Any = loader.dataset
    chosen = list(itertools.islice(indices, min(size, _MOST)))
    try:
        items = [dataset[index] for index in chosen]
        own, batch = _least(collate, items)
    except Exception:
        return None
    default = None
    if collate is not default_collate:
        try:
            seconds, other = _least(default_collate, items)
        except Exception:
            return Collating(len(items), own, None)
        made = digest(batch)
        default = seconds if made != UNKNOWN and made == digest(other) else None
    return Collating(len(items), own, default)


def _least(collate: Any, items: list[Any]) -> tuple[float, Any]:
    taken = []
    batch = None
    for _ in range(_TURNS):
        then = time.perf_counter()
        batch = collate(list(items))
        taken.append(time.perf_counter() - then)
        if sum(taken) > _MOST_SECONDS:
            break
    return min(taken), batch
