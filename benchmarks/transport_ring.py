"""A peer of benchmarks/transport.py: NumPy arrays through a ring in shared memory, by hand.

As lean as such a queue can be made in Python: the shapes are agreed beforehand, so nothing but the
number of a slot travels, and the views are made once. In return every batch has to have the same
shapes, and its arrays hold good only until the next one is asked for.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

SLOTS = 3
"""For each worker: as many as torch prefetches, and the one that the loop holds."""
_ALIGNMENT = 64
_STOP = 255


def _views(memory: SharedMemory, sizes: Sequence[int]) -> list[list[Any]]:
    """Return each slot's arrays."""
    starts = [0, *itertools.accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    return [
        [
            np.ndarray((size // 4,), np.int32, memory.buf, slot * starts[-1] + start)
            for size, start in zip(sizes, starts, strict=False)
        ]
        for slot in range(SLOTS)
    ]


def _length(sizes: Sequence[int]) -> int:
    return SLOTS * sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def _work(pipe: Connection, name: str, dataset: Any, first: int, step: int) -> None:
    """Fill the slots that the loop lets go of, one batch each."""
    memory = SharedMemory(name)
    slots = _views(memory, dataset.batch.sizes)
    for index in itertools.count(first, step):
        slot = pipe.recv_bytes()
        if slot[0] == _STOP:
            break
        for view, array in zip(slots[slot[0]], dataset[index], strict=True):
            view[:] = array
        pipe.send_bytes(slot)
    slots.clear()
    view = array = None  # the mapping cannot be closed while an array shows it
    memory.close()


class Ring:
    """Batches of several workers in turns; each holds good until the next is asked for."""

    def __init__(self, dataset: Any, workers: int) -> None:
        sizes = dataset.batch.sizes
        self._memories = [SharedMemory(create=True, size=_length(sizes)) for _ in range(workers)]
        self._slots = [_views(memory, sizes) for memory in self._memories]
        self._pipes: list[Connection] = []
        self._processes = []
        for number, memory in enumerate(self._memories):
            mine, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(
                target=_work, args=(theirs, memory.name, dataset, number, workers), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)
            for slot in range(SLOTS):
                mine.send_bytes(bytes([slot]))
        self._turn = 0
        self._held: tuple[Connection, bytes] | None = None

    def __iter__(self) -> Ring:
        return self

    def __next__(self) -> list[Any]:
        if self._held is not None:
            pipe, slot = self._held
            pipe.send_bytes(slot)
        turn = self._turn
        self._turn = (turn + 1) % len(self._pipes)
        pipe = self._pipes[turn]
        slot = pipe.recv_bytes()
        self._held = pipe, slot
        return self._slots[turn][slot[0]]

    def close(self) -> None:
        """End the workers and give the memory back."""
        for pipe in self._pipes:
            pipe.send_bytes(bytes([_STOP]))
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            process.join()
            pipe.close()
        self._slots.clear()
        for memory in self._memories:
            memory.close()
            memory.unlink()
