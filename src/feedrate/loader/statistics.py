"""What a loader tells of itself: `DataLoader.stats`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from feedrate.loader.recovery import Death

if TYPE_CHECKING:
    from feedrate.loader.iterator import ElasticIterator


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """One worker since it started.

    ``busy_share`` is the share of its life that it spent fetching, 0 to 1: near 1 the worker is the
    limit, near 0 it waits for the loop. ``cpu_seconds_per_batch`` far below
    ``fetch_seconds_per_batch`` means that it waits for storage.
    """

    number: int
    pid: int
    batches: int
    busy_share: float
    fetch_seconds_per_batch: float
    cpu_seconds_per_batch: float


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """A loader's iteration so far; all of it is 0 or empty before the first batch.

    ``wait_seconds`` is the time that the loop was blocked in ``next()``, ``step_seconds`` the time
    between two calls; the medians are those of the last batches. ``queue_depth`` is how many
    batches have arrived and wait: near 0 the loop takes them as they come, near workers ×
    prefetch_factor the loader is ahead. ``restarts`` counts the deaths after which a worker was
    started in the dead one's place.
    """

    batches: int = 0
    wait_seconds: float = 0.0
    step_seconds: float = 0.0
    median_wait_seconds: float = 0.0
    median_step_seconds: float = 0.0
    queue_depth: int = 0
    workers: tuple[WorkerStats, ...] = ()
    deaths: tuple[Death, ...] = ()
    restarts: int = 0

    @property
    def wait_share(self) -> float:
        """Share of the time that the loop waited: near 0 the loader keeps up."""
        total = self.wait_seconds + self.step_seconds
        return self.wait_seconds / total if total else 0.0


def collect(iterator: ElasticIterator) -> LoaderStats:
    """Return the figures of one iterator."""
    meter = iterator.meter
    now = time.monotonic()
    workers = tuple(
        WorkerStats(
            number=worker.number,
            pid=worker.process.pid,
            batches=worker.batches,
            busy_share=min(1.0, worker.fetch_seconds / max(now - worker.started, 1e-9)),
            fetch_seconds_per_batch=worker.fetch_seconds / max(worker.batches, 1),
            cpu_seconds_per_batch=worker.cpu_seconds / max(worker.batches, 1),
        )
        for worker in iterator.crew
        if not worker.gone
    )
    return LoaderStats(
        batches=meter.batches,
        wait_seconds=meter.wait_seconds,
        step_seconds=meter.step_seconds,
        median_wait_seconds=_median(meter.waits),
        median_step_seconds=_median(meter.steps),
        queue_depth=iterator.queue_depth(),
        workers=workers,
        deaths=tuple(iterator.rescue.deaths),
        restarts=iterator.rescue.restarts,
    )


def _median(values: Iterable[float]) -> float:
    listed = list(values)
    return statistics.median(listed) if listed else 0.0
