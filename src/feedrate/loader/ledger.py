"""The ledger of one epoch: which batch was given to which worker, and which one comes next.

Pure bookkeeping, without processes, clocks or data of its own, so that order and completeness can
be tested by themselves. A batch has a number from 0 on, in the sampler's order. It is *sent* to a
worker, *arrives*, and is *taken* by the loop; a batch whose worker died is sent again under the
same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_PENDING = object()


@dataclass(slots=True)
class Task:
    """One batch under way: the sampler's index, its worker, and its data once it has arrived."""

    index: Any
    worker: int
    attempts: int = 1
    data: Any = _PENDING

    @property
    def arrived(self) -> bool:
        """Whether its data is here."""
        return self.data is not _PENDING


class Ledger:
    """The batches under way.

    Args:
        in_order: batches are taken by number; otherwise as they arrive.
    """

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._tasks: dict[int, Task] = {}
        self._next_number = 0
        self._next_taken = 0
        self._load: dict[int, int] = {}
        self._arrivals: list[int] = []

    def __len__(self) -> int:
        """Return how many batches were sent and not yet taken."""
        return len(self._tasks)

    def load(self, worker: int) -> int:
        """Return how many batches of a worker have not been taken."""
        return self._load.get(worker, 0)

    def waiting(self) -> int:
        """Return how many batches have arrived and not been taken."""
        return sum(task.arrived for task in self._tasks.values())

    def send(self, index: Any, worker: int) -> int:
        """Note that the next batch is given to a worker; return its number."""
        number = self._next_number
        self._next_number += 1
        self._tasks[number] = Task(index, worker)
        self._load[worker] = self._load.get(worker, 0) + 1
        return number

    def arrive(self, number: int, data: Any) -> bool:
        """Note a batch's data. False where it is not awaited (any more): it must not be used."""
        task = self._tasks.get(number)
        if task is None or task.arrived:
            return False
        task.data = data
        if not self._in_order:
            self._arrivals.append(number)
        return True

    def take(self) -> Task | None:
        """Return the next batch that the loop may have, ``None`` if it has not arrived."""
        if self._in_order:
            self._skip_dropped()
            number = self._next_taken
            task = self._tasks.get(number)
            if task is None or not task.arrived:
                return None
            self._next_taken += 1
        elif self._arrivals:
            number = self._arrivals.pop(0)
            task = self._tasks[number]
        else:
            return None
        del self._tasks[number]
        self._load[task.worker] -= 1
        return task

    def next_worker(self) -> int | None:
        """Return the worker whose batch the loop waits for; ``None`` where nothing is under way."""
        self._skip_dropped()
        task = self._tasks.get(self._next_taken)
        return None if task is None else task.worker

    def unfinished(self, worker: int) -> list[tuple[int, Task]]:
        """Return a worker's batches that have not arrived, in the order they were sent."""
        return [
            (number, task)
            for number, task in sorted(self._tasks.items())
            if task.worker == worker and not task.arrived
        ]

    def move(self, number: int, worker: int, *, failed: bool) -> Task:
        """Give a batch that has not arrived to another worker; ``failed`` counts an attempt."""
        task = self._tasks[number]
        self._load[task.worker] -= 1
        self._load[worker] = self._load.get(worker, 0) + 1
        task.worker = worker
        task.attempts += failed
        return task

    def drop(self, worker: int) -> int:
        """Forget a worker's batches that will never come (its iterable is exhausted)."""
        gone = [number for number, _ in self.unfinished(worker)]
        for number in gone:
            del self._tasks[number]
        self._load[worker] = self._load.get(worker, 0) - len(gone)
        return len(gone)

    def tasks(self) -> Iterator[tuple[int, Task]]:
        """Yield all batches under way, by number."""
        yield from sorted(self._tasks.items())

    def _skip_dropped(self) -> None:
        while self._next_taken < self._next_number and self._next_taken not in self._tasks:
            self._next_taken += 1
