"""Which settings are tried against the loader's own: only those that could gain, by its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from feedrate.measure.examined import Duel, Question, Starts
from feedrate.measure.examining import starting
from feedrate.measure.examining.duels import duel, waiting_batches
from feedrate.measure.examining.threads import OneThread
from feedrate.measure.examining.twins import replaced, twin, with_workers

if TYPE_CHECKING:
    from feedrate.measure.examining.examiner import Examiner

_WINDOW_SECONDS = 0.7
_LONGEST_EPOCH = 6.0
_WAITS = 0.1
"""A loop that waits a smaller share of its time has little to gain."""
_WORTH = 0.85
"""What a loop without workers has to take at most, by its items' own time, to be tried."""
_FASTER = 1.15
_SLOW_START, _COSTLY_START = 0.4, 1.0
_SLOW_ITEM = 1e-3
_IDLE, _BUSY = 0.4, 1.3
"""CPU time over wall time of an item below which it waits; CPU time of all threads over that of
one above which it has several."""
_THREADS = 3
"""A worker has one, and one more that sends its batches."""
_MANY_BYTES = 96 << 20
_MOST_WORKERS = 16
_COSTLY_BATCH = 0.005


class SpeedTrials:
    """The trials of speed on one loader, by what its loop and items showed."""

    def __init__(self, examiner: Examiner) -> None:
        self._all = examiner
        self._loader = examiner.loader

    def run(self) -> None:
        """Try what could gain; nothing where the loop showed too little."""
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
            self._try_threads()
            if loop.startup > _COSTLY_START:
                self._try_starts()
            if fewer is None or not (fewer.is_clear and fewer.gain > _FASTER):
                self._try_without_workers()
                self._try_more()
            self._try_prefetch()
            if loop.startup <= _COSTLY_START:
                self._try_starts()
        else:
            self._try_workers()

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

    def _try_threads(self) -> None:
        items, loop = self._all.items, self._all.loop
        if items is None or loop is None or not self._loader.num_workers:
            return
        if loop.worker_threads is not None and loop.worker_threads < _THREADS:
            return
        if items.cpu_threads > _BUSY:
            other = replaced(self._loader)
            other.worker_init_fn = OneThread(self._loader.worker_init_fn)
            self._duel("one_thread", 1, other)

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
        method = self._all.setup.facts.start_method
        own = loop.later_startup if loop.later_startup is not None else loop.startup

        def starts() -> Starts:
            spawned = method in ("spawn", "forkserver")
            empty = starting.empty_start(loader) if spawned else None
            kept = None
            batches = self._all.setup.facts.length
            few = batches is not None and batches * self._batch < 0.25 * self._all.left()
            if not loader.persistent_workers and batches and few:
                kept = starting.kept_start(loader, batches + 1)
            return Starts(own=own, empty=empty, kept=kept)

        self._all.attempt("the start of workers", 2 * loop.startup, starts)

    def _duel(
        self,
        question: Question,
        value: int,
        other: DataLoader[Any],
        own: DataLoader[Any] | None = None,
    ) -> Duel | None:
        loop = self._all.loop
        assert loop is not None
        queued = max(waiting_batches(self._loader), waiting_batches(other))
        length = loop.epoch_batches[0] if loop.epoch_batches else self._all.setup.facts.length
        epoch = loop.epoch_seconds[0] if loop.epoch_seconds else None
        if epoch is None and length is not None:
            epoch = loop.startup + length * self._batch
        what = f"{question.replace('_', ' ')} ({value})"
        short = length is not None and length < 3 * queued + self._window_batches()
        if short and (epoch is None or epoch > _LONGEST_EPOCH):
            self._all.untried(what, "an epoch has too few batches for a fair window")
            return None
        seconds = _WINDOW_SECONDS
        needs = (
            (4 if own is None else 5) * epoch
            if short and epoch
            else 4 * (seconds + queued * self._batch) + 1.0
        )
        part = self._all.attempt(
            what,
            min(needs, 20.0),
            lambda: duel(
                question,
                value,
                own or replaced(self._loader),
                other,
                self._all.step,
                seconds=seconds,
                epochs=short,
                warm=own is not None,
            ),
        )
        return part if isinstance(part, Duel) else None

    def _window_batches(self) -> int:
        return int(_WINDOW_SECONDS / max(self._batch, 1e-6))
