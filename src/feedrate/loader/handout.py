"""Handing out: which worker is given the sampler's next batch, and how far ahead all may be."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

from feedrate.loader.crew import Crew, Worker
from feedrate.loader.ledger import Ledger

_INT = {int}


def _pack(number: int, index: Any) -> bytes:
    """Return the message that gives a batch; plain indices need no pickler that knows of more."""
    plain = type(index) is int or (type(index) is list and set(map(type, index)) == _INT)
    dumps = pickle.dumps if plain else ForkingPickler.dumps
    return bytes(dumps((number, index)))


class Handout:
    """Gives one epoch's batches after another to the workers of a crew.

    Args:
        crew: the workers.
        in_order: batches are taken in the sampler's order; work goes round the workers then.
            Otherwise it goes to whoever has room: a slow batch holds up its own worker only.
        prefetch: how many batches each worker may be ahead.
    """

    def __init__(self, crew: Crew, *, in_order: bool, prefetch: int) -> None:
        self._crew = crew
        self._in_order = in_order
        self.prefetch = prefetch
        self.begin(iter(()))

    def begin(self, indices: Iterator[Any]) -> None:
        """Begin an epoch, whose batches ``indices`` yields; the last one's are forgotten."""
        self.ledger = Ledger(in_order=self._in_order)
        self._indices = indices
        self._ended = False
        self._turn = 0

    @property
    def most_under_way(self) -> int:
        """How many batches may be under way in all."""
        return self.prefetch * sum(not (w.gone or w.retiring) for w in self._crew.workers)

    def fill(self) -> None:
        """Give out as many batches as may be under way."""
        for _ in range(self.most_under_way - len(self.ledger)):
            self.next()

    def next(self, worker: Worker | None = None) -> None:
        """Give the sampler's next batch to a worker: the one named, or the one whose turn it is."""
        if self._ended or (worker is None and len(self.ledger) >= self.most_under_way):
            return
        try:
            index = next(self._indices)
        except StopIteration:
            self._ended = True
            return
        worker = worker or self._whose_turn()
        if worker is not None:
            self.give(self.ledger.send(index, worker.number), index, worker)

    @staticmethod
    def give(number: int, index: Any, worker: Worker) -> None:
        """Send a batch's number and index to a worker."""
        worker.send(_pack(number, index))

    def _whose_turn(self) -> Worker | None:
        workers = self._crew.workers
        able = sum(worker.active for worker in workers)
        for _ in range(len(workers)):
            worker = workers[self._turn % len(workers)]
            self._turn += 1
            if worker.active and (
                self._in_order or self.ledger.load(worker.number) < self.most_under_way // able
            ):
                return worker
        return None

    def sources(self) -> list[Worker]:
        """Return the workers whose messages help: in order, only the one whose batch is next."""
        if self._in_order:
            number = self.ledger.next_worker()
            return [] if number is None else [self._crew.workers[number]]
        return [w for w in self._crew.workers if not w.gone and self.ledger.load(w.number)]
