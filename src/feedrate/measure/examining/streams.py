"""IterableDatasets: what one process makes of them, and what workers do."""

from __future__ import annotations

import collections
import time
from typing import Any

from torch.utils.data import BatchSampler, DataLoader

from feedrate.measure.examined import Stream
from feedrate.measure.examining.digests import UNKNOWN, Digests, digest
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.examining.twins import replaced, with_workers

_BATCH = 16
_MOST = 4000
_MOST_WORKERS = 8
_FEWEST = 8
"""Fewer items than this in common may be chance."""


def worker_count(loader: DataLoader[Any]) -> int:
    """Return with how many workers a stream is tried: the user's own number, or two."""
    return min(max(2, loader.num_workers), _MOST_WORKERS)


def count_alone(loader: DataLoader[Any], seconds: float, tell: Tell, place: Place) -> None:
    """Tell how many items come in one process; to be called in a probe."""
    end = time.perf_counter() + seconds
    count, whole, distinct = 0, True, set()
    dataset: Any = loader.dataset
    for item in dataset:
        count += 1
        place.at = count
        distinct.add(digest(item))
        if count >= _MOST or time.perf_counter() > end:
            whole = False
            break
    tell(Stream(single=count, shares=(), whole=whole, distinct=len(distinct)))


def count_shares(loader: DataLoader[Any], alone: Stream, seconds: float) -> Stream:
    """Iterate with workers; return how many items each brought, and how many of them twice."""
    count = worker_count(loader)
    batched = loader.batch_sampler is not None
    twin = with_workers(loader, count)
    if batched:
        sampler: Any = twin.sampler
        twin = replaced(twin, batch_sampler=BatchSampler(sampler, _BATCH, drop_last=False))
    twin = replaced(twin, drop_last=False, timeout=0, pin_memory=False, persistent_workers=False)
    twin.collate_fn = Digests(single=not batched)
    shares = [0] * count
    seen: list[collections.Counter[str]] = [collections.Counter() for _ in range(count)]
    end = time.perf_counter() + seconds
    whole = alone.whole
    for worker, digests in twin:
        shares[worker] += len(digests)
        seen[worker].update(digests)
        if sum(shares) >= count * _MOST or time.perf_counter() > end:
            whole = False
            break
    return judge(alone, shares, seen, whole=whole)


def judge(
    alone: Stream,
    shares: list[int],
    seen: list[collections.Counter[str]],
    *,
    whole: bool,
) -> Stream:
    """Compare the items of the two workers that brought most."""
    for counter in seen:
        counter.pop(UNKNOWN, None)
    one, other = sorted(seen, key=lambda counter: -len(counter))[:2]
    common = len(one.keys() & other.keys())
    compared = min(len(one), len(other))
    return Stream(
        single=alone.single,
        shares=tuple(shares),
        whole=whole,
        repeated=common if common >= min(_FEWEST, compared) else 0,
        compared=compared,
        distinct=len(set().union(*seen)),
    )
