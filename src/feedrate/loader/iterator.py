"""The elastic iterator: torch's multi-worker iteration with workers that come and go.

The main side is ours: a ledger says which batch is where, and every worker has a channel of its
own. The workers run torch's own loop. Batches, order, seeds, errors and messages are as with
torch's iterator, whose subclass it is, since programs ask for it by that name.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch.multiprocessing

from feedrate.loader import torch_private
from feedrate.loader.arrivals import Arrivals, DirectArrivals, Event, read
from feedrate.loader.crew import Crew, Worker
from feedrate.loader.handout import Handout
from feedrate.loader.in_place import pinned_arrivals
from feedrate.loader.meter import Meter
from feedrate.loader.rescue import Rescue
from feedrate.loader.transport import Delivery, count_bytes, make_transport

if TYPE_CHECKING:
    from feedrate.loader.dataloader import DataLoader

_LOOK_SECONDS = 1.0
"""A worker's end wakes the loop at once; this is for what wakes nobody."""


class ElasticIterator(torch_private.MultiProcessingIterator):  # type: ignore[misc]
    """One iteration, or with persistent workers one after another, of a `DataLoader`."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._owner = os.getpid()
        self._shutdown = True  # until there is something to shut down
        torch_private.BaseIterator.__init__(self, loader)
        self._loader = weakref.ref(loader)
        self._pilot = loader.pilot
        self._map_style = torch_private.is_map_style(self)
        self._fetches: list[tuple[float, float]] = []
        self.meter = Meter()
        self.batch_bytes = 0
        self.fills_shm = loader.transport == "torch"
        context = loader.multiprocessing_context or torch.multiprocessing
        self._crew = Crew(
            context,
            self._dataset,
            torch_private.loop_arguments(self, loader),
            functools.partial(make_transport, loader.transport),
        )
        self._shutdown = False
        self._work = Handout(
            self._crew,
            in_order=getattr(loader, "in_order", True),  # torch has it since 2.6
            prefetch=loader.prefetch_factor or 2,
        )
        self._arrivals: Arrivals = DirectArrivals(self._crew)
        self.rescue = Rescue(
            self._crew,
            replaces=loader.on_worker_death == "replace" and self._map_style,
            send=self._work.give,
        )
        try:
            for number in range(self._num_workers):
                self._crew.start(number, self._num_workers)
            if self._pin_memory:
                self._start_pinning(loader.transport)
        except BaseException:
            self._shutdown_workers()
            raise
        self._reset(loader, first_iter=True)

    def _start_pinning(self, transport: str) -> None:
        self._arrivals = pinned_arrivals(self._crew, self._pin_memory_device, transport)
        if self._arrivals.thread is not None:
            self._pin_memory_thread = self._arrivals.thread  # where torch's iterator has it
        for worker in self._crew.workers:
            self._arrivals.add(worker)

    # What there is

    @property
    def _workers(self) -> list[Any]:
        """The processes, where torch's iterator has them and tests and tools look for them."""
        return [worker.process for worker in self._crew.workers if not worker.gone]

    @property
    def active(self) -> list[Worker]:
        """The workers that stay, also those whose iterable has come to its end."""
        return [w for w in self._crew.workers if not (w.gone or w.retiring)]

    @property
    def crew(self) -> list[Worker]:
        """All workers by number, with those that are gone."""
        return self._crew.workers

    @property
    def has_ended(self) -> bool:
        """Whether its workers were told to end."""
        return self._shutdown

    @property
    def is_under_way(self) -> bool:
        """Whether the loop has not had all batches of its epoch."""
        return not (self._shutdown or (self._is_filled and not len(self._work.ledger)))

    def steer_no_more(self) -> None:
        """Stay at this level, for the loader has a newer iterator."""
        self._pilot = None

    @property
    def level(self) -> int:
        """How many workers there are."""
        return len(self.active)

    @property
    def prefetch(self) -> int:
        """How many batches each worker may be ahead."""
        return self._work.prefetch

    def queue_depth(self) -> int:
        """Return how many batches have arrived and wait for the loop."""
        for worker in () if self._shutdown else self._crew.workers:
            # What the loop has not needed yet lies in the channels, unless a thread reads them.
            while not worker.gone and self._arrivals.thread is None:
                event = read(worker)
                if event is None or event.delivery is None:
                    break  # an end is told again when it is waited for
                self._accept(worker, event.delivery)
        return self._work.ledger.waiting()

    def take_fetches(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of the fetches that arrived since the last call."""
        fetches, self._fetches = self._fetches, []
        return fetches

    # An epoch's beginning

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        torch_private.BaseIterator._reset(self, loader, first_iter)
        if loader.seeds_each_epoch and not first_iter:
            torch_private.draw_base_seed(loader.generator)
        self._work.begin(self._sampler_iter)
        if not first_iter:
            self._resume()
        self.meter.pause()
        if self._pilot is not None:
            self._pilot.epoch_begins(self)
        self._is_filled = not loader.fills_late
        if self._is_filled:
            self._work.fill()

    def _resume(self) -> None:
        """Make every worker ready for another epoch; what is left of the last one is dropped."""
        for worker in self._crew.workers:
            if worker.retiring and not worker.gone:
                self._crew.retire(worker)
        body = bytes(ForkingPickler.dumps(torch_private.make_resume(self._shared_seed)))
        waiting = set()
        for worker in self.active:
            worker.exhausted = False
            worker.send(body)
            waiting.add(worker.number)
        while waiting:
            sources = [self._crew.workers[number] for number in waiting]
            event = self._arrivals.next(sources, _LOOK_SECONDS)
            if event is None:
                continue
            if event.delivery is None:
                self._lose(event, body)
                waiting = {n for n in waiting if not self._crew.workers[n].gone}
            elif torch_private.is_resume(event.delivery.number):
                waiting.discard(event.worker.number)

    # Taking

    def _next_data(self) -> Any:
        step = self.meter.asked()
        if not self._is_filled:
            self._is_filled = True
            self._work.fill()
        ledger = self._work.ledger
        while (task := ledger.take()) is None:
            if not len(ledger):
                self.meter.pause()
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            self._receive()
        worker = self._crew.workers[task.worker]
        if worker.retiring and not worker.gone and not ledger.load(task.worker):
            self._crew.retire(worker)
        self._work.next()
        torch_private.reraise(task.data)
        if not self.batch_bytes:
            self.batch_bytes = count_bytes(task.data)
        wait = self.meter.given()
        if self._pilot is not None:
            self._pilot.after_batch(self, wait, step)
        return task.data

    def _receive(self) -> None:
        """Take in one message or one worker's end.

        Raises:
            RuntimeError: as torch's loader, for a dead worker or a timeout.
        """
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            seconds = _LOOK_SECONDS
            if deadline is not None:
                seconds = min(seconds, deadline - time.monotonic())
                if seconds <= 0:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            event = self._arrivals.next(self._work.sources(), seconds)
            if event is not None:
                self._handle(event)
                return

    def _handle(self, event: Event) -> None:
        worker = event.worker
        if event.delivery is not None:
            self._accept(worker, event.delivery)
        elif not worker.gone:
            self._take_in_the_rest(worker)
            self._lose(event)

    def _take_in_the_rest(self, worker: Worker) -> None:
        """Accept what a worker had sent whole; what cannot be fetched is noted as made."""
        if worker.exit_code() is None:
            return
        while (rest := read(worker)) is not None and not worker.channel.closed:
            if rest.delivery is not None:
                self._accept(worker, rest.delivery)

    def _lose(self, event: Event, first_message: bytes | None = None) -> None:
        self.rescue.lose(
            event.worker,
            self._work.ledger,
            add=self._arrivals.add,
            error=event.error,
            first_message=first_message,
        )
        loader = self._loader()
        if loader is not None and len(self.active) < loader.num_workers:
            loader.num_workers = len(self.active)

    def _accept(self, worker: Worker, delivery: Delivery) -> None:
        if torch_private.is_resume(delivery.number):
            return
        if not self._map_style and torch_private.exhausted_worker(delivery.data) is not None:
            worker.exhausted = True
            self._work.ledger.drop(worker.number)
            if not self._persistent_workers:
                self._crew.retire(worker)
            self._work.next()
            return
        if self._pilot is not None:  # who else would take them?
            self._fetches.append((delivery.fetch_seconds, delivery.cpu_seconds))
        self._work.ledger.arrive(delivery.number, delivery.data)

    # Growing and shrinking

    def set_level(self, level: int, prefetch: int) -> None:
        """Change how many workers there are and how far they may be ahead, in the loader too."""
        loader = self._loader()
        change = level - len(self.active)
        if change > 0:
            self.grow(change)
        elif change < 0:
            self.shrink(-change)
        self._work.prefetch = prefetch
        if loader is not None:
            loader.num_workers = level
            loader.prefetch_factor = prefetch
        self._work.fill()

    def grow(self, count: int) -> None:
        """Start ``count`` workers more; in the middle of an epoch they take part at once."""
        for _ in range(count):
            everyone = self._crew.workers
            free = (w.number for w in everyone if w.gone and not self._work.ledger.load(w.number))
            number = next(free, len(everyone))
            worker = self._crew.start(number, len(self.active) + 1)
            self._arrivals.add(worker)
            if len(self._work.ledger):
                for _ in range(self._work.prefetch):
                    self._work.next(worker)

    def shrink(self, count: int) -> None:
        """Let ``count`` workers go once they have delivered what they hold; one stays."""
        for worker in self.active[1:][::-1][:count]:
            worker.retiring = True
            if not self._work.ledger.load(worker.number):
                self._crew.retire(worker)

    # The end

    def _shutdown_workers(self) -> None:
        if self._shutdown or torch_private.interpreter_ends():
            return
        self._shutdown = True
        if os.getpid() == self._owner:
            loader = self._loader()
            if loader is not None:
                loader.keep_stats(self)
            self._arrivals.close()
            self._crew.stop()

    def __del__(self) -> None:
        if not getattr(self, "_shutdown", True):
            self._shutdown_workers()
