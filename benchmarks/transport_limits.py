"""The limits of benchmarks/transport.py: copying a batch, and handing it out, with no transport."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from transport_plan import DATASET, FRESH, MEMCPY, WORKERS, Batch, Value

UNDER_WAY = 3
"""Batches of one worker that have memory at the same time: two prefetched, one in the loop."""


def measure(batch: Batch, dataset: Any, seconds: float) -> list[Value]:
    """Return what memcpy takes by as many processes as there are workers, and the two others."""
    found = [
        Value(MEMCPY, batch.name, workers, at_once(batch.bytes, workers, seconds), 0.0)
        for workers in WORKERS
    ]
    numbers = itertools.count()
    fresh = repeat(_copying_into_fresh(batch.bytes), seconds)
    alone = repeat(lambda: dataset[next(numbers)], seconds)
    found.append(Value(FRESH, batch.name, 1, fresh, 0.0))
    found.append(Value(DATASET, batch.name, 1, alone, 0.0))
    return found


def repeat(action: Callable[[], Any], seconds: float) -> float:
    """Return the seconds that an action takes in the mean, over so many seconds."""
    for _ in range(2 * UNDER_WAY):
        action()
    start = time.perf_counter()
    for count in itertools.count(1):
        action()
        elapsed = time.perf_counter() - start
        if elapsed >= seconds and count >= UNDER_WAY:
            break
    return elapsed / count


def _source(size: int) -> Any:
    return np.arange(size // 4, dtype=np.int32)


def copying(size: int) -> Callable[[], Any]:
    """Return an action that copies a batch into memory that was touched before."""
    source = _source(size)
    targets = [np.ones(size // 4, np.int32) for _ in range(UNDER_WAY)]
    addresses = itertools.cycle([target.ctypes.data for target in targets])
    start = source.ctypes.data

    def copy() -> Any:
        ctypes.memmove(next(addresses), start, size)
        return source, targets  # both stay

    return copy


def _copying_into_fresh(size: int) -> Callable[[], Any]:
    source = _source(size)

    def copy() -> None:
        with mmap.mmap(-1, size) as memory:
            target = (ctypes.c_char * size).from_buffer(memory)
            ctypes.memmove(target, source.ctypes.data, size)
            del target

    return copy


def _copy(size: int, seconds: float, start: Any, times: Any) -> None:
    action = copying(size)
    for _ in range(UNDER_WAY):
        action()
    start.wait()
    times.put(repeat(action, seconds))


def at_once(size: int, processes: int, seconds: float) -> float:
    """Return the seconds from one batch to the next while so many processes copy."""
    if processes == 1:
        return repeat(copying(size), seconds)
    start = multiprocessing.Barrier(processes)
    times: multiprocessing.SimpleQueue[float] = multiprocessing.SimpleQueue()
    copiers = [
        multiprocessing.Process(target=_copy, args=(size, seconds, start, times), daemon=True)
        for _ in range(processes)
    ]
    for copier in copiers:
        copier.start()
    rates = [1 / times.get() for _ in copiers]
    for copier in copiers:
        copier.join()
    return 1 / sum(rates)
