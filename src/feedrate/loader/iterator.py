"""The elastic iterator: torch's multi-worker iteration with workers that come and go.

The main side is ours: a ledger says which batch is where, and every worker has a channel of its
own. The workers run torch's own loop. Batches, order, seeds, errors and messages are as with
torch's iterator, whose subclass it is, since programs ask for it by that name.
"""

from __future__ import annotations

import logging
import os
import time
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch.multiprocessing

from feedrate.host.files import SystemReader
from feedrate.host.limits import oom_kills
from feedrate.host.shared_files import remove_files_of
from feedrate.loader import torch_private
from feedrate.loader.channel import Closed
from feedrate.loader.crew import Crew, Worker
from feedrate.loader.ledger import Ledger
from feedrate.loader.meter import Meter
from feedrate.loader.recovery import Death, decide, give_up_message, torch_message

if TYPE_CHECKING:
    from feedrate.loader.dataloader import DataLoader

log = logging.getLogger("feedrate")

_LOOK_SECONDS = 1.0


class ElasticIterator(torch_private.MultiProcessingIterator):  # type: ignore[misc]
    """One iteration, or with persistent workers one after another, of a `DataLoader`."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._owner = os.getpid()
        self._shutdown = True  # until there is something to shut down
        torch_private.BaseIterator.__init__(self, loader)
        self._loader_mode = loader.on_worker_death
        self._prefetch_factor: int = loader.prefetch_factor or 2
        self._in_order = loader.in_order
        self._map_style = torch_private.is_map_style(self)
        self.meter = Meter()
        self.deaths: list[Death] = []
        self._reader = SystemReader()
        self._memory_kills = oom_kills(self._reader)
        self._turn = 0
        self._ended = False
        arguments = {
            "dataset_kind": self._dataset_kind,
            "auto_collation": self._auto_collation,
            "collate_fn": self._collate_fn,
            "drop_last": self._drop_last,
            "base_seed": self._base_seed,
            "init_fn": torch_private.sharding_init(self, loader.worker_init_fn),
            "persistent_workers": self._persistent_workers,
            "shared_seed": self._shared_seed,
        }
        context = loader.multiprocessing_context or torch.multiprocessing
        self._crew = Crew(context, self._dataset, arguments)
        self._shutdown = False
        try:
            for number in range(self._num_workers):
                self._crew.start(number, self._num_workers)
        except BaseException:
            self._shutdown_workers()
            raise
        self._reset(loader, first_iter=True)

    @property
    def _workers(self) -> list[Any]:
        """The processes, where torch's iterator has them and tests and tools look for them."""
        return [worker.process for worker in self._crew.workers if not worker.gone]

    @property
    def active(self) -> list[Worker]:
        """The workers that are given work."""
        return [w for w in self._crew.workers if not (w.gone or w.retiring)]

    # An epoch's beginning

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        torch_private.BaseIterator._reset(self, loader, first_iter)
        self._ended = False
        if not first_iter:
            self._resume()
        self._ledger = Ledger(in_order=self._in_order)
        self._turn = 0
        self.meter.pause()
        for _ in range(self._prefetch_factor * len(self.active)):
            self._send_next()

    def _resume(self) -> None:
        """Make every worker ready for another epoch; what is left of the last one is dropped."""
        for worker in self._crew.workers:
            if worker.retiring and not worker.gone:
                self._crew.retire(worker)
        body = bytes(ForkingPickler.dumps(torch_private.make_resume(self._shared_seed)))
        for worker in self.active:
            worker.exhausted = False
            worker.send(body)
        for number in [worker.number for worker in self.active]:
            self._await_ready(number, body)

    def _await_ready(self, number: int, body: bytes) -> None:
        while not (worker := self._crew.workers[number]).gone:
            try:
                delivery = worker.receive()
            except (Closed, OSError, EOFError):
                self._lose(worker, resume=body)
                continue
            if delivery is None:
                self._crew.wait([worker], _LOOK_SECONDS)
            elif torch_private.is_resume(delivery.number):
                return

    # Handing out

    def _send_next(self) -> None:
        """Give the sampler's next batch to the worker whose turn it is."""
        if self._ended or len(self._ledger) >= self._most_under_way():
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            self._ended = True
            return
        worker = self._whose_turn()
        if worker is not None:
            self._send(index, worker)

    def _send_next_to(self, worker: Worker) -> None:
        """Give the sampler's next batch to a worker that has just come."""
        if self._ended:
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            self._ended = True
            return
        self._send(index, worker)

    def _send(self, index: Any, worker: Worker) -> None:
        number = self._ledger.send(index, worker.number)
        worker.send(bytes(ForkingPickler.dumps((number, index))))

    def _most_under_way(self) -> int:
        return self._prefetch_factor * sum(not (w.gone or w.retiring) for w in self._crew.workers)

    def _whose_turn(self) -> Worker | None:
        workers = self._crew.workers
        able = sum(worker.active for worker in workers)
        for _ in range(len(workers)):
            worker = workers[self._turn % len(workers)]
            self._turn += 1
            if not worker.active:
                continue
            # Out of order, work goes to whoever has room, so that a slow batch holds up only its
            # own worker.
            share = self._most_under_way() // able
            if self._in_order or self._ledger.load(worker.number) < share:
                return worker
        return None

    # Taking

    def _next_data(self) -> Any:
        self.meter.asked()
        while True:
            task = self._ledger.take()
            if task is not None:
                worker = self._crew.workers[task.worker]
                if worker.retiring and not worker.gone and not self._ledger.load(task.worker):
                    self._crew.retire(worker)
                self._send_next()
                torch_private.reraise(task.data)
                self.meter.given()
                return task.data
            if not len(self._ledger):
                self.meter.pause()
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            self._receive()

    def _receive(self) -> None:
        """Take in at least one message or death.

        Raises:
            RuntimeError: as torch's loader, for a dead worker or a timeout.
        """
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            sources = self._sources()
            for worker in sources:
                try:
                    delivery = worker.receive()
                except Closed:
                    self._lose(worker)
                    return
                except (OSError, EOFError) as error:
                    self._lose(worker, error=error)
                    return
                if delivery is not None:
                    self._accept(worker, delivery.number, delivery.data)
                    return
            seconds = _LOOK_SECONDS
            if deadline is not None:
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            for worker in self._crew.wait(sources, min(seconds, _LOOK_SECONDS)):
                if worker.gone:
                    continue
                self._lose(worker)
                return

    def _sources(self) -> list[Worker]:
        """The workers whose messages can help: in order, only the one whose batch is next."""
        if self._in_order:
            number = self._ledger.next_worker()
            return [] if number is None else [self._crew.workers[number]]
        return [w for w in self._crew.workers if not w.gone and self._ledger.load(w.number)]

    def _accept(self, worker: Worker, number: Any, data: Any) -> None:
        if torch_private.is_resume(number):
            return
        if not self._map_style and torch_private.exhausted_worker(data) is not None:
            worker.exhausted = True
            self._ledger.drop(worker.number)
            if not self._persistent_workers:
                self._crew.retire(worker)
            self._send_next()
            return
        self._ledger.arrive(number, data)

    # Losing

    def _lose(
        self, worker: Worker, *, error: BaseException | None = None, resume: bytes | None = None
    ) -> None:
        """Deal with a worker that has ended, or whose tensors cannot be fetched.

        Raises:
            RuntimeError: it is not to be replaced, or cannot be.
        """
        code = worker.exit_code()
        if code is None and error is not None:
            raise error  # it lives: the error is no sign of its death
        self._take_in_the_rest(worker)
        self._crew.forget(worker)
        if code is None:
            worker.process.kill()
            code = worker.exit_code()
        worker.close()
        remove_files_of(worker.process.pid)
        unfinished = self._ledger.unfinished(worker.number) if hasattr(self, "_ledger") else []
        if worker.retiring and not unfinished:
            return
        death = self._describe(worker, code, unfinished)
        self.deaths.append(death)
        if self._loader_mode != "replace" or not self._map_style:
            raise RuntimeError(torch_message(death)) from error
        others = sum(other.active for other in self._crew.workers)
        action = decide(death, others=others)
        if action == "give_up":
            raise RuntimeError(give_up_message(death)) from error
        self._go_on(worker, death, unfinished, action, resume)

    def _take_in_the_rest(self, worker: Worker) -> None:
        """Accept what the worker had sent whole before it ended."""
        try:
            while (delivery := worker.receive()) is not None:
                self._accept(worker, delivery.number, delivery.data)
        except (Closed, OSError, EOFError):
            return

    def _describe(self, worker: Worker, code: int | None, unfinished: list[Any]) -> Death:
        kills = oom_kills(self._reader)
        new_kills = 0
        if kills is not None and self._memory_kills is not None:
            new_kills = kills - self._memory_kills
        self._memory_kills = kills
        number, task = unfinished[0] if unfinished else (None, None)
        return Death(
            worker=worker.number,
            pid=worker.process.pid,
            exit_code=code,
            memory_kills=new_kills,
            batch=number,
            indices=task.index if task else None,
            attempts=task.attempts if task else 0,
        )

    def _go_on(
        self,
        worker: Worker,
        death: Death,
        unfinished: list[Any],
        action: str,
        resume: bytes | None,
    ) -> None:
        """Send the dead worker's batches again: to a new one, or to those that are left."""
        if action == "shrink":
            log.warning("a worker was %s; going on with %d workers", death.words, len(self.active))
            takers = self.active
        else:
            log.warning("a worker was %s; it is replaced", death.words)
            new = self._crew.start(worker.number, len(self._crew.workers))
            new.retiring = worker.retiring
            takers = [new]
            if resume is not None:
                new.send(resume)
        for place, (number, task) in enumerate(unfinished):
            taker = takers[place % len(takers)]
            self._ledger.move(number, taker.number, failed=place == 0)
            taker.send(bytes(ForkingPickler.dumps((number, task.index))))

    # Growing and shrinking

    def grow(self, count: int) -> None:
        """Start ``count`` workers more; in the middle of an epoch they take part at once."""
        for _ in range(count):
            vacant = [w.number for w in self._crew.workers if w.gone]
            number = vacant[0] if vacant and not self._busy(vacant[0]) else len(self._crew.workers)
            worker = self._crew.start(number, len(self.active) + 1)
            if self._ledger and not self._ended:
                for _ in range(self._prefetch_factor):
                    self._send_next_to(worker)

    def shrink(self, count: int) -> None:
        """Let ``count`` workers go once they have delivered what they hold."""
        for worker in self.active[1:][::-1][:count]:
            worker.retiring = True
            if not self._ledger.load(worker.number):
                self._crew.retire(worker)

    def _busy(self, number: int) -> bool:
        return self._ledger.load(number) > 0

    # The end

    def _shutdown_workers(self) -> None:
        if self._shutdown or torch_private.interpreter_ends():
            return
        self._shutdown = True
        if os.getpid() == self._owner:
            self._crew.stop()

    def __del__(self) -> None:
        if not getattr(self, "_shutdown", True):
            self._shutdown_workers()
