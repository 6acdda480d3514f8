"""The loader against itself with one setting changed: short windows in turn, so drift hits both."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from feedrate.measure.batch import Counter, item_counter
from feedrate.measure.examined import Duel, Question
from feedrate.measure.examining.forecast import ROUNDS

Step = Callable[[Any], object]


def waiting_batches(loader: DataLoader[Any]) -> int:
    """Return how many batches can wait, finished, for a loop that comes late."""
    return max(1, loader.num_workers * (loader.prefetch_factor or 0))


class _Side:
    """One of the two: iterated window by window, with its workers kept in between."""

    def __init__(self, loader: DataLoader[Any], step: Step | None, *, epochs: bool) -> None:
        self._loader = loader
        self._step = step
        self._epochs = epochs
        self._iterator: Any = None
        self._count: Counter | None = None

    def start(self) -> None:
        """Start workers that are kept, and leave their first epoch."""
        next(iter(self._loader), None)

    def rate(self, seconds: float) -> float:
        """Return items/s over a window: a whole epoch from its start, or so many seconds."""
        if self._epochs:
            started = time.perf_counter()
            items = self._pass(iter(self._loader), None)
            return items / (time.perf_counter() - started)
        if self._iterator is None:
            self._begin()
        else:
            self._drain()  # its workers have filled the queue while the other side ran
        started = time.perf_counter()
        items = 0
        while time.perf_counter() - started < seconds:
            items += self._pass(self._iterator, started + seconds)
            if time.perf_counter() - started < seconds:
                pause = time.perf_counter()
                self._begin()
                started += time.perf_counter() - pause  # a start is no part of a steady window
        return items / (time.perf_counter() - started)

    def _begin(self) -> None:
        self._iterator = None
        self._iterator = iter(self._loader)
        self._drain()

    def _drain(self) -> None:
        for _ in range(waiting_batches(self._loader)):
            batch = next(self._iterator, None)
            if batch is None:
                self._iterator = iter(self._loader)
                return
            self._take(batch)

    def _pass(self, iterator: Any, end: float | None) -> int:
        items = 0
        for batch in iterator:
            items += self._take(batch)
            if end is not None and time.perf_counter() >= end:
                break
        return items

    def _take(self, batch: Any) -> int:
        if self._count is None:
            self._count = item_counter(batch, self._loader)
        items = self._count(batch)
        if self._step is not None:
            self._step(batch)
        return items


def duel(
    question: Question,
    value: int,
    own: DataLoader[Any],
    other: DataLoader[Any],
    step: Step | None,
    *,
    seconds: float,
    epochs: bool,
    warm: bool = False,
) -> Duel:
    """Measure both in turn. ``seconds`` is a window's; whole epochs take what they take.

    ``warm``: before whole epochs kept workers are started.
    """
    sides = [_Side(each, step, epochs=epochs) for each in (own, other)]
    for side in sides if epochs and warm else ():
        side.start()
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for place in (0, 1) if turn % 2 == 0 else (1, 0):
            rates[place].append(sides[place].rate(seconds))
    return Duel(
        question=question, value=value, own=tuple(rates[0]), other=tuple(rates[1]), epochs=epochs
    )
