"""What comes before the first batch: the start of workers, and the sampler's first index."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from feedrate.measure.examined import SamplerCost
from feedrate.measure.examining.keeping import anonymous_bytes
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.examining.twins import replaced


class Nothing(Dataset[Any]):
    """A dataset that costs nothing to send and to read: what the start takes without one."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: Any) -> Any:
        return torch.zeros(1)


def first_batch_seconds(loader: DataLoader[Any]) -> float:
    """Return the time from ``iter()`` to the first batch."""
    started = time.perf_counter()
    iterator = iter(loader)
    next(iterator, None)
    return time.perf_counter() - started


def batch_seconds(loader: DataLoader[Any], seconds: float) -> float | None:
    """Return what a batch takes within a loop over one iterator, after the first one.

    ``None`` where an epoch has no second batch.
    """
    iterator = iter(loader)
    next(iterator, None)
    started = time.perf_counter()
    batches = 0
    for _ in iterator:
        batches += 1
        if time.perf_counter() - started > seconds:
            break
    return (time.perf_counter() - started) / batches if batches else None


def empty_start(loader: DataLoader[Any]) -> float:
    """Return what the same workers take to start with a dataset of nothing."""
    twin = replaced(
        loader,
        dataset=Nothing(),
        batch_sampler=[[number] for number in range(4 * max(1, loader.num_workers))],
        batch_size=None,
        drop_last=False,
        persistent_workers=False,
        pin_memory=False,
        timeout=0,
    )
    twin.collate_fn = _first
    twin.worker_init_fn = None
    return first_batch_seconds(twin)


def _first(items: list[Any]) -> Any:
    return items[0]


def kept_start(loader: DataLoader[Any], most_batches: int) -> float | None:
    """Return what a later epoch takes to its first batch where workers are kept.

    ``None`` where the first epoch has more batches than ``most_batches``: torch begins another
    one only once the workers have done what they were asked for, so it is left early.
    """
    twin = replaced(loader, persistent_workers=True)
    iterator = iter(twin)
    for _ in range(most_batches):
        if next(iterator, None) is None:
            break
    return first_batch_seconds(twin)


def cost_of_sampler(loader: DataLoader[Any], tell: Tell, place: Place) -> None:
    """Tell what the first index of an epoch takes; to be called in a probe."""
    place.at = 0
    source: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    before = anonymous_bytes()
    started = time.perf_counter()
    iterator = iter(source)
    next(iterator, None)
    seconds = time.perf_counter() - started
    tell(SamplerCost(seconds=seconds, bytes=max(0, anonymous_bytes() - before)))
