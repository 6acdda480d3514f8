"""Which settings are tried against the loader's own: only those that could gain, by its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from torch.utils.data import DataLoader

from feedrate.measure.examined import Begun, Duel, Question, Starts
from feedrate.measure.examining import starting
from feedrate.measure.examining.duels import duel, waiting_batches
from feedrate.measure.examining.forecast import WINDOW_SECONDS, Forecast
from feedrate.measure.examining.setting_up import AllCpus, MoreThreads, OneThread
from feedrate.measure.examining.twins import replaced, twin, with_workers

if TYPE_CHECKING:
    from feedrate.measure.examining.examiner import Examiner

_WAITS = 0.1
"""A loop that waits a smaller share of its time has little to gain."""
_WORTH = 0.85
"""What a loop without workers has to take at most, by its items' own time, to be tried."""
_FASTER = 1.15
_SLOW_START, _COSTLY_START = 0.4, 1.0
_SHORT_EPOCHS = 0.25
"""The share of the time that is left within which an epoch is short enough to go ahead."""
_SLOW_ITEM = 1e-3
_COMPUTES, _LONG_ITEM = 0.8, 5e-3
"""From which share of its time on the CPU an item computes, and how long it takes at least for
several threads to pay."""
_IDLE, _BUSY = 0.4, 1.3
"""CPU time over wall time of an item below which it waits; CPU time of all threads over that of
one above which it has several."""
_THREADS = 3
"""A worker has one, and one more that sends its batches."""
_MANY_BYTES = 96 << 20
_MOST_WORKERS = 16
_COSTLY_BATCH = 0.005
_FORKED_START = 0.2
"""What workers take to start where none were seen to: those that are tried are forked."""


class SpeedTrials:
    """The trials of speed on one loader, by what its loop and items showed."""

    def __init__(self, examiner: Examiner) -> None:
        self._all = examiner
        self._loader = examiner.loader

    def run(self) -> None:
        """Try what could gain; nothing where the loop showed too little."""
        self._try_one_iterator()
        loop = self._all.loop
        if loop is None or not loop.waits:
            self._all.untried("speed", "the loop had fewer than two batches to measure")
            return
        wait = sum(loop.waits) / len(loop.waits)
        step = sum(loop.steps) / len(loop.steps) if loop.steps else 0.0
        self._wait_share = wait / max(wait + step, 1e-9)
        self._step, self._batch = step, wait + step
        if self._loader.num_workers:
            fewer = self._try_fewer()
            self._try_one_thread()
            self._try_all_cpus()
            if loop.startup > _COSTLY_START:
                self._try_starts()
            if fewer is None or not (fewer.is_clear and fewer.gain > _FASTER):
                self._try_without_workers()
                self._try_more()
                self._try_more_threads()
            self._try_prefetch()
            if loop.startup <= _COSTLY_START:
                self._try_starts()
        else:
            self._try_workers()

    def _try_one_iterator(self) -> None:
        """Loop over one iterator where the script makes a new one for each batch."""
        begun = self._all.begun
        if begun is None or not begun.is_often:
            return

        def kept() -> Begun | None:
            seconds = starting.batch_seconds(replaced(self._loader), WINDOW_SECONDS)
            return None if seconds is None else msgspec.structs.replace(begun, kept=seconds)

        self._all.attempt("one iterator for all batches", 2.0 + 2 * begun.seconds, kept)

    def _try_workers(self) -> None:
        forked = self._all.setup.default_start_method == "fork"
        costly = self._batch > _COSTLY_BATCH
        if self._wait_share < _WAITS or not costly:
            return
        if self._all.handles.handles and forked:
            self._all.untried("workers", "what is open in the dataset would be shared with them")
            return
        if self._all.setup.unguarded:
            return
        count = max(1, min(4, int(self._all.setup.cpus)))
        if not self._all.setup.facts.iterable:
            self._duel("workers", count, with_workers(self._loader, count))

    def _try_without_workers(self) -> None:
        items, size = self._all.items, self._loader.batch_size
        if items is None or size is None:
            return
        alone = size * items.median + self._step
        if alone < _WORTH * self._batch:
            self._duel("no_workers", 0, with_workers(self._loader, 0))

    def _try_fewer(self) -> Duel | None:
        count = max(1, int(self._all.setup.cpus))
        if self._loader.num_workers > count and self._wait_share >= _WAITS:
            if self._waits():
                return self._duel("fewer", count, self._kept(count), own=self._kept())
            return self._duel("fewer", count, with_workers(self._loader, count))
        return None

    def _waits(self) -> bool:
        """Tell whether items wait for something and hardly compute."""
        items = self._all.items
        return items is not None and items.cpu_share < _IDLE and items.median > _SLOW_ITEM

    def _kept(self, count: int | None = None) -> DataLoader[Any]:
        """Return a copy whose workers stay: for their rate, and not what many take to start."""
        workers = self._loader.num_workers if count is None else count
        return twin(self._loader, num_workers=workers, persistent_workers=True)

    def _try_more(self) -> None:
        items, own = self._all.items, self._loader.num_workers
        if items is None or self._wait_share < _WAITS or self._all.setup.facts.iterable:
            return
        cpus = int(self._all.setup.cpus)
        waits = self._waits()
        if own > cpus and not waits:
            return
        more = min(_MOST_WORKERS, max(4 * own, 8)) if waits else cpus
        if more > own and self._batch > _COSTLY_BATCH:
            self._duel("more", more, self._kept(more), own=self._kept())

    def _try_one_thread(self) -> None:
        items, loop = self._all.items, self._all.loop
        if items is None or loop is None or not self._loader.num_workers:
            return
        if loop.worker_threads is not None and loop.worker_threads < _THREADS:
            return
        if items.cpu_threads > _BUSY:
            self._duel("one_thread", 1, self._set_up_by(OneThread(self._loader.worker_init_fn)))

    def _try_all_cpus(self) -> None:
        """Give workers back the CPUs that an import has taken from this process."""
        setup, cpus = self._all.setup, self._all.cpus
        if setup.affinity is None or setup.affinity >= len(cpus) or self._wait_share < _WAITS:
            return
        init = AllCpus(self._loader.worker_init_fn, cpus)
        self._duel("all_cpus", len(cpus), self._set_up_by(init))

    def _try_more_threads(self) -> None:
        """Let workers compute with the CPUs that they leave idle, where their items compute."""
        items = self._all.items
        each = int(self._all.setup.cpus) // max(1, self._loader.num_workers)
        if items is None or each < 2 or self._wait_share < _WAITS:
            return
        if items.cpu_share > _COMPUTES and items.median > _LONG_ITEM:
            init = MoreThreads(self._loader.worker_init_fn, each)
            self._duel("more_threads", each, self._set_up_by(init))

    def _set_up_by(self, init: Callable[[int], Any]) -> DataLoader[Any]:
        other = replaced(self._loader)
        other.worker_init_fn = init
        return other

    def _try_prefetch(self) -> None:
        loop, prefetch = self._all.loop, self._loader.prefetch_factor
        if loop is None or prefetch is None or prefetch <= 2:
            return
        if loop.batch_bytes * self._loader.num_workers * prefetch >= _MANY_BYTES:
            workers, kept = self._loader.num_workers, self._loader.persistent_workers
            other = twin(
                self._loader, num_workers=workers, prefetch_factor=2, persistent_workers=kept
            )
            self._duel("less_prefetch", 2, other)

    def _try_starts(self) -> None:
        loop, loader = self._all.loop, self._loader
        if loop is None or loop.startup < _SLOW_START or not loader.num_workers:
            return
        own = loop.later_startup if loop.later_startup is not None else loop.startup
        empty: float | None = None
        if self._all.setup.facts.start_method in ("spawn", "forkserver"):
            part = self._all.attempt(
                "a start without the dataset",
                own,
                lambda: Starts(own=own, empty=starting.empty_start(loader)),
            )
            empty = part.empty if isinstance(part, Starts) else None
        batches = self._all.setup.facts.length
        epoch = None if batches is None else batches * self._batch
        if loader.persistent_workers or not batches or epoch is None:
            return
        if epoch < _SHORT_EPOCHS * self._all.left():
            self._all.attempt(
                "a start with kept workers",
                own + epoch,
                lambda: Starts(own=own, empty=empty, kept=starting.kept_start(loader, batches + 1)),
            )

    def _duel(
        self,
        question: Question,
        value: int,
        other: DataLoader[Any],
        own: DataLoader[Any] | None = None,
    ) -> Duel | None:
        """Try a change where there is time for it."""
        own = own or replaced(self._loader)
        forecast = self._forecast(own, other)
        left = self._all.left()
        what = f"{question.replace('_', ' ')} ({value})"
        if forecast.by_epochs and forecast.epoch is None:
            self._all.untried(what, "an epoch has too few batches for a fair window")
            return None
        part = self._all.attempt(
            what,
            forecast.needs(left),
            lambda: duel(
                question,
                value,
                own,
                other,
                self._all.step,
                seconds=forecast.window(left),
                epochs=forecast.by_epochs,
                warm=forecast.kept,
            ),
        )
        return part if isinstance(part, Duel) else None

    def _forecast(self, own: DataLoader[Any], other: DataLoader[Any]) -> Forecast:
        loop = self._all.loop
        assert loop is not None
        return Forecast(
            starts=(self._start_of(own), self._start_of(other)),
            epoch=self._epoch_seconds(),
            kept=all(not each.num_workers or each.persistent_workers for each in (own, other)),
            length=loop.epoch_batches[0] if loop.epoch_batches else self._all.setup.facts.length,
            batch=self._batch,
            queued=(waiting_batches(own), waiting_batches(other)),
            step=self._step,
            speedup=max(1.0, other.num_workers / max(1, own.num_workers)),
        )

    def _start_of(self, loader: DataLoader[Any]) -> float:
        """Return what a loader's start takes, by that of the loop's: workers start one by one."""
        loop, count = self._all.loop, self._loader.num_workers
        assert loop is not None
        if not loader.num_workers:
            return 0.0
        if not count:
            return _FORKED_START
        spawned = self._all.setup.facts.start_method in ("spawn", "forkserver")
        return loop.startup * (max(1.0, loader.num_workers / count) if spawned else 1.0)

    def _epoch_seconds(self) -> float | None:
        """Return the time of an epoch without its start."""
        loop, length = self._all.loop, self._all.setup.facts.length
        assert loop is not None
        if self._loader.persistent_workers and len(loop.epoch_seconds) > 1:
            return min(loop.epoch_seconds[1:])
        if loop.epoch_seconds:
            return max(loop.epoch_seconds[0] - loop.startup, 0.0) + self._batch
        return None if length is None else length * self._batch
