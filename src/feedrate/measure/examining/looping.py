"""The loader as it is, iterated for a while with its step: figures, or how it failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from feedrate.host.files import SystemReader
from feedrate.loader.torch_private import worker_exit_codes
from feedrate.measure.batch import Counter, item_counter, measure_size
from feedrate.measure.cpu import worker_cpu_seconds
from feedrate.measure.device_memory import most_on_device
from feedrate.measure.examined import Broken, Leaf, Loop
from feedrate.measure.examining.alarm import (
    Alarm,
    TooLong,
    calm_children,
    kill_workers,
    workers,
)
from feedrate.measure.examining.copies import WATCHED_STEP, CopyWatch
from feedrate.measure.examining.leaves import describe
from feedrate.measure.failure import describe_exception, with_exit_codes
from feedrate.measure.stacks import standing
from feedrate.records import LoaderFacts, RunError

_EXIT_SECONDS = 1.0
_MOST_BATCHES = 5000
_KEPT = 2000

Step = Callable[[Any], object]


class Account:
    """What was seen of the loop until now.

    Args:
        loader: what is iterated.
        step: one training step, or ``None``.
        seconds: how long after the first batch is enough.
        feed: is called whenever something has come.
    """

    def __init__(
        self, loader: DataLoader[Any], step: Step | None, seconds: float, feed: Callable[[], None]
    ) -> None:
        self._loader, self._step, self._seconds, self._feed = loader, step, seconds, feed
        self._count: Counter | None = None
        self._cpu_before: float | None = None
        self._first_at = self._left_at = 0.0
        self._startup = 0.0
        self._later_startup: float | None = None
        self._items = 0
        self._size = (0, 0)
        self._leaves: tuple[Leaf, ...] = ()
        self._threads: int | None = None
        self._worker_cpu: float | None = None
        self._wait_cpu = self._asked_cpu = 0.0
        self._waits: list[float] = []
        self._steps: list[float] = []
        self._epochs: list[tuple[float, int, int]] = []
        self._copies = CopyWatch()
        self.batches = 0
        self.is_starting = True

    def run(self) -> None:
        """Iterate, epoch after epoch, until it is enough."""
        while self._epoch(first=not self._epochs):
            pass
        if self._cpu_before is not None and (after := worker_cpu_seconds()) is not None:
            lasted = max(1e-9, time.perf_counter() - self._first_at)
            count = max(1, self._loader.num_workers)
            self._worker_cpu = max(0.0, after - self._cpu_before) / lasted / count

    def _epoch(self, *, first: bool) -> bool:
        """Iterate once; tell whether to go on."""
        begun = asked = time.perf_counter()
        items = batches = 0
        self.is_starting = True
        for batch in self._loader:
            got = time.perf_counter()
            self._feed()
            batches += 1
            self.batches += 1
            self.is_starting = False
            if self._count is None:
                self._first(batch, got - begun)
                got = time.perf_counter()
            elif batches == 1 and len(self._epochs) == 1:
                self._later_startup = got - begun
            elif first and len(self._waits) < _KEPT:
                self._waits.append(got - asked)
                self._wait_cpu += time.thread_time() - self._asked_cpu
            assert self._count is not None, "the first batch has set it"
            number = self._count(batch)
            items += number
            if self._step is not None:
                with self._copies if self.batches == WATCHED_STEP else contextlib.nullcontext():
                    self._step(batch)
                self._feed()
            asked = time.perf_counter()
            self._asked_cpu = time.thread_time()
            if first:
                self._left_at = asked
                self._items += number if batches > 1 else 0
                if batches > 1 and len(self._steps) < _KEPT:
                    self._steps.append(asked - got)
            if self.batches == 2:
                self._threads = _most_threads()
                asked = time.perf_counter()
            if asked - self._first_at > self._seconds or self.batches >= _MOST_BATCHES:
                return False
        ended = time.perf_counter()
        self._epochs.append((ended - begun, items, batches))
        self._feed()
        again = self._loader.persistent_workers or self._startup <= self._seconds
        return batches > 0 and again and ended - self._first_at <= self._seconds

    def _first(self, batch: Any, startup: float) -> None:
        self._startup = startup
        self._count = item_counter(batch, self._loader)
        self._size, self._leaves = measure_size(batch), describe(batch, "batch")
        self._cpu_before = worker_cpu_seconds()
        self._first_at = time.perf_counter()

    def record(self) -> Loop | None:
        """Return the figures, ``None`` where no batch came."""
        if self.batches == 0:
            return None
        whole = self._epochs[0][2] if self._epochs else self.batches
        return Loop(
            startup=self._startup,
            batches=whole - 1,
            items=self._items,
            seconds=max(self._left_at - self._first_at, 1e-9),
            waits=tuple(self._waits),
            steps=tuple(self._steps),
            epoch_seconds=tuple(lasted for lasted, _, _ in self._epochs),
            epoch_items=tuple(items for _, items, _ in self._epochs),
            epoch_batches=tuple(batches for _, _, batches in self._epochs),
            batch_bytes=self._size[0],
            batch_tensors=self._size[1],
            leaves=self._leaves,
            has_step=self._step is not None,
            worker_threads=self._threads,
            worker_cpu_share=self._worker_cpu,
            later_startup=self._later_startup,
            wait_cpu_share=self._wait_cpu / max(sum(self._waits), 1e-9) if self._waits else None,
            device_bytes=most_on_device(),
            copies=self._copies.told(),
        )


def run_loop(
    loader: DataLoader[Any],
    step: Step | None,
    *,
    seconds: float,
    patience: Callable[[], float],
    facts: LoaderFacts,
) -> tuple[Loop | None, Broken | None]:
    """Iterate a loader until ``seconds`` after its first batch, for an epoch and into the next.

    ``patience`` tells how long the next batch, with the start or a step, may take.
    """
    alarm = Alarm()
    account = Account(loader, step, seconds, lambda: alarm.feed(_least(patience())))
    try:
        with alarm.armed(_least(patience())):
            try:
                account.run()
            except TooLong:
                kill_workers()
                raise
    except TooLong as late:
        return account.record(), Broken(
            error=_hung(late, account),
            batches=account.batches,
            seconds=late.seconds,
            busy=late.busy,
            starting=account.is_starting,
        )
    except (Exception, SystemExit) as error:
        calm_children()
        codes = worker_exit_codes(error.__traceback__, _EXIT_SECONDS)
        described = with_exit_codes(describe_exception(error, setting_up=False, facts=facts), codes)
        return account.record(), Broken(error=described, batches=account.batches, exit_codes=codes)
    return account.record(), None


def _least(seconds: float) -> float:
    return max(0.05, seconds)  # a timer of no time would never ring


def _hung(late: TooLong, account: Account) -> RunError:
    batches = account.batches
    where = "before its first batch" if batches == 0 else f"after {batches} batches"
    return RunError(
        kind="timeout",
        sentence=f"nothing came for {late.seconds:.3g} s, {where}: {standing(late.stacks)}",
        traceback=late.stacks.whole(),
    )


def _most_threads() -> int | None:
    reader = SystemReader()
    found = [len(reader.listdir(f"/proc/{pid}/task") or ()) for pid in workers()[:8]]
    return max(found, default=None)
