"""The pilot: cuts a running loop into windows, asks the controller, and moves the workers."""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.limits import affinity, local_ranks, memory_limits, shm_space, usable_cpus
from feedrate.host.memory import parse_smaps_rollup
from feedrate.loader.controller import TOLERANCE, Controller
from feedrate.loader.levels import Decision, Window

if TYPE_CHECKING:
    from feedrate.loader.iterator import ElasticIterator

log = logging.getLogger("feedrate")

SETTLING_ROUNDS = 4
"""Rounds after a change that are not measured: the queues fill, and bursts even out."""
WINDOW_SECONDS = 0.5
WINDOW_ROUNDS = 3
SETTLED_SECONDS = 5.0
"""The length of a window once all is settled: it only watches then."""
MOST_WORKERS = 32
_SPARE = 0.8
"""The share of the free memory that workers may take."""


class Pilot:
    """Steers one loader. It outlives the iterators, so that short epochs add up to windows.

    Args:
        most: the highest number of workers.
        prefetch: the prefetch factor to begin with.
        reader: the source of limits and memory; this machine's files if left out.
        tolerance: gains below this share are none.
        ram_bytes: what the main process, its workers and the batches that wait may take together.
        shm_bytes: what the batches that wait may take of ``/dev/shm``.
        on_window: told of each window, once the decision that follows from it is in ``history``.
    """

    def __init__(
        self,
        *,
        most: int = MOST_WORKERS,
        prefetch: int = 2,
        reader: ProcReader | None = None,
        tolerance: float = TOLERANCE,
        ram_bytes: int | None = None,
        shm_bytes: int | None = None,
        on_window: Callable[[Window], None] | None = None,
    ) -> None:
        self._reader = reader or SystemReader()
        ranks = local_ranks(os.environ)
        self.cpus = usable_cpus(self._reader, affinity()).cpus / ranks
        self._ranks = ranks
        self._most = most
        self._ram_bytes = ram_bytes
        self._shm_bytes = shm_bytes
        self._on_window = on_window
        self.paused = False
        self.controller = Controller(
            cpus=self.cpus, most=most, prefetch=prefetch, tolerance=tolerance
        )
        self.history: list[Decision] = []
        self._skip = SETTLING_ROUNDS
        self._left_out = 0
        self._main_cpu: Callable[[], float] = time.process_time
        self._begin()

    @property
    def settings(self) -> dict[str, int]:
        """What to make another one with."""
        return {"most": self._most, "prefetch": self.controller.prefetch}

    def _begin(self) -> None:
        self._batches = 0
        self._wait = 0.0
        self._step = 0.0
        self._cpu = 0.0
        self._cpu_at: float | None = None
        self._fetches: list[float] = []
        self._fetch_cpu: list[float] = []

    def epoch_begins(self, iterator: ElasticIterator) -> None:
        """Leave out the first round of an epoch, in which the queues fill."""
        self._left_out = max(iterator.level, self._skip * iterator.level)
        self._cpu_at = None

    def after_batch(self, iterator: ElasticIterator, wait: float, step: float | None) -> None:
        """Count a batch that the loop has just got, with the step before it; unless paused."""
        if step is None or self.paused:
            self._cpu_at = None
            iterator.take_fetches()
            return
        if self._left_out > 0:
            self._left_out -= 1
            iterator.take_fetches()
            if self._left_out == 0:
                self._skip = 1
                self._cpu_at = self._main_cpu()
            return
        now = self._main_cpu()
        if self._cpu_at is not None:
            self._cpu += now - self._cpu_at
        self._cpu_at = now
        self._batches += 1
        self._wait += wait
        self._step += step
        for fetch, cpu in iterator.take_fetches():
            self._fetches.append(fetch)
            self._fetch_cpu.append(cpu)
        if self._is_complete(iterator.level):
            self._decide(iterator)

    def _is_complete(self, level: int) -> bool:
        seconds = SETTLED_SECONDS if self.controller.settled else WINDOW_SECONDS
        return (
            self._batches % level == 0
            and self._batches >= WINDOW_ROUNDS * level
            and self._wait + self._step >= seconds
            and bool(self._fetches)
        )

    def _decide(self, iterator: ElasticIterator) -> None:
        fetch = statistics.fmean(self._fetches)
        step = self._step / self._batches
        window = Window(
            level=iterator.level,
            prefetch=iterator.prefetch,
            batches=self._batches,
            # Workers that are too few live on what others have left in the queue, for longer than a
            # window; without that the loop would wait until they have made a batch.
            wait=max(self._wait / self._batches, fetch / iterator.level - step),
            step=step,
            fetch=fetch,
            worker_cpu=statistics.fmean(self._fetch_cpu),
            main_cpu=self._cpu / self._batches,
            fetch_variation=_variation(self._fetches),
        )
        self._begin()
        most, reason = self._what_fits(iterator)
        decision = self.controller.limit(most, reason)
        if decision is None:
            decision = self.controller.observe(window)
        if decision is not None:
            self.note(decision)
        if self._on_window is not None:
            self._on_window(window)
        if decision is None:
            return
        if (decision.level, decision.prefetch) != (iterator.level, iterator.prefetch):
            iterator.set_level(decision.level, decision.prefetch)
            self._left_out = SETTLING_ROUNDS * iterator.level

    def note(self, decision: Decision) -> None:
        """Keep a decision and log it."""
        self.history.append(decision)
        log.info(
            "%d workers, prefetch_factor %d: %s", decision.level, decision.prefetch, decision.reason
        )

    def _what_fits(self, iterator: ElasticIterator) -> tuple[int, str]:
        """Return how many workers the memory holds, and the words for it."""
        level = iterator.level
        own = self._worker_bytes(iterator)
        batches = iterator.prefetch * iterator.batch_bytes
        free = memory_limits(self._reader).free
        most, reason = self._most, f"{self._most} workers is the most allowed"
        if free is not None and own + batches > 0:
            # Growing leaves room for one worker more: less than that is short, and takes one away.
            more = int(_SPARE * free / self._ranks / (own + batches)) - 1
            fitting = level + max(more, 0) if free >= own + batches else level - 1
            if fitting < most:
                most = fitting
                reason = (
                    f"memory is short: {free / 2**20:.0f} MiB are free, and a worker takes "
                    f"{(own + batches) / 2**20:.0f} MiB"
                )
        space = shm_space() if iterator.fills_shm else None
        if space is not None and batches > 0:
            fitting = level + int(_SPARE * space.free / self._ranks / batches)
            if fitting < most:
                most = fitting
                reason = f"/dev/shm is short: {space.free / 2**20:.0f} MiB are free"
        return min([(most, reason), *self._what_is_allowed(own, batches)])

    def _what_is_allowed(self, own: int, batches: int) -> list[tuple[int, str]]:
        """Return the same for each budget that was given."""
        allowed = []
        if self._ram_bytes is not None and own + batches > 0:
            fitting = int((self._ram_bytes - self._main_bytes()) / (own + batches))
            allowed.append((fitting, f"{self._ram_bytes / 2**20:.0f} MiB of memory"))
        if self._shm_bytes is not None and batches > 0:
            fitting = int(self._shm_bytes / batches)
            allowed.append((fitting, f"{self._shm_bytes / 2**20:.0f} MiB of /dev/shm"))
        return [
            (most, f"the budget of {budget} has room for {max(most, 1)}")
            for most, budget in allowed
        ]

    def _main_bytes(self) -> int:
        """Return the memory of this process, with what the workers share with it."""
        try:
            return parse_smaps_rollup(self._reader.read("/proc/self/smaps_rollup") or "").rss
        except ValueError:
            return 0

    def _worker_bytes(self, iterator: ElasticIterator) -> int:
        """Return the most memory that one worker has to itself."""
        most = 0
        for worker in iterator.active:
            text = self._reader.read(f"/proc/{worker.process.pid}/smaps_rollup")
            try:
                most = max(most, parse_smaps_rollup(text or "").uss or 0)
            except ValueError:
                continue
        return most


def _variation(values: list[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = statistics.fmean(values)
    return statistics.stdev(values) / mean if mean > 0 else 0.0
