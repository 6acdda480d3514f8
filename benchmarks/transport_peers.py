"""One peer of benchmarks/transport.py, measured: the program of the child processes.

``python transport_peers.py PEER FILE SECONDS [check]`` appends a JSON line for each value.
"""

from __future__ import annotations

import gc
import itertools
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import torch
import transport_limits
from transport_plan import BATCHES, LIMITS, WORKERS, Batch, Failure, Value
from transport_ring import Ring

T = TypeVar("T")

PREFETCH = 2
WARM_BATCHES = 8
"""For each worker: more than are ever under way at once, twice, so all memory was touched."""
WARM_SECONDS = 0.05
LEAST_BATCHES = 6
"""Of one value, for each worker."""
CHECKED_BATCHES = 5
"""For each worker, so that memory is used again."""


class WrongBatchError(Exception):
    """A peer delivered something else than what the worker had sent."""


def pattern(size: int, index: int, place: int) -> Any:
    """Return what a tensor of a checked batch holds."""
    return np.arange(size // 4, dtype=np.int32) + np.int32(index * 1009 + place * 31)


class Ready:
    """A dataset of ready-made batches, as tensors or as arrays.

    The same bytes each time, in new tensors; ``checked``: different ones each time.
    """

    def __init__(self, batch: Batch, *, checked: bool = False, arrays: bool = False) -> None:
        self.batch = batch
        self.checked = checked
        self.arrays = arrays
        self._made: list[Any] = []

    def __len__(self) -> int:
        return 10**7

    def __getitem__(self, index: int) -> list[Any]:
        made = self._made
        if self.checked or not made:
            made = [pattern(size, index, i) for i, size in enumerate(self.batch.sizes)]
            self._made = made
        return made if self.arrays else [torch.from_numpy(array) for array in made]


def as_is(batch: Any) -> Any:
    """Collate nothing."""
    return batch


def _stock(kind: Any, ready: Ready, workers: int, **more: Any) -> Iterator[Any]:
    """Return an iterator of a loader that takes torch's arguments."""
    return iter(
        kind(
            ready,
            batch_size=None,
            num_workers=workers,
            collate_fn=as_is,
            prefetch_factor=PREFETCH,
            **more,
        )
    )


def _torch(ready: Ready, workers: int) -> Iterator[Any]:
    from torch.utils.data import DataLoader

    return _stock(DataLoader, ready, workers)


def _arena(ready: Ready, workers: int) -> Iterator[Any]:
    from feedrate.loader.dataloader import DataLoader

    return _stock(DataLoader, ready, workers, transport="arena")


def _files(ready: Ready, workers: int) -> Iterator[Any]:
    from feedrate.loader.dataloader import DataLoader

    return _stock(DataLoader, ready, workers, transport="torch")


def _torchdata(ready: Ready, workers: int) -> Iterator[Any]:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return _stock(StatefulDataLoader, ready, workers)


def _spdl(ready: Ready, workers: int) -> Iterator[Any]:
    from spdl.dataloader import get_pytorch_dataloader

    return _stock(get_pytorch_dataloader, ready, workers, in_order=True)


class _Source:
    """Every so-and-so-manieth batch: what one of SPDL's pipelines delivers."""

    def __init__(self, ready: Ready, first: int, step: int) -> None:
        self.ready, self.first, self.step = ready, first, step

    def __iter__(self) -> Iterator[Any]:
        for index in itertools.count(self.first, self.step):
            yield self.ready[index]


def _pool(ready: Ready, workers: int) -> Iterator[Any]:
    from spdl.pipeline import (
        PipelineBuilder,
        SharedMemorySegmentPool,
        run_pipeline_in_subprocess,
    )

    size = sum(-(-size // 64) * 64 for size in ready.batch.sizes)
    iterators = []
    for first in range(workers):
        builder = PipelineBuilder().add_source(_Source(ready, first, workers)).add_sink(PREFETCH)
        pool = SharedMemorySegmentPool(size, 2 * PREFETCH + 2)
        iterators.append(
            iter(
                run_pipeline_in_subprocess(
                    builder.get_config(), num_threads=1, arena=pool, buffer_size=PREFETCH
                )
            )
        )
    return map(next, itertools.cycle(iterators))


def _ring(ready: Ready, workers: int) -> Iterator[Any]:
    return Ring(ready, workers)


OPEN: dict[str, Callable[[Ready, int], Iterator[Any]]] = {
    "torch": _torch,
    "arena": _arena,
    "files": _files,
    "torchdata": _torchdata,
    "spdl": _spdl,
    "pool": _pool,
    "ring": _ring,
}


def using(peer: str, ready: Ready, workers: int, act: Callable[[Iterator[Any]], T]) -> T:
    """Return what is done with a peer's iterator; its workers have ended then."""
    iterator = OPEN[peer](ready, workers)
    try:
        return act(iterator)
    finally:
        if hasattr(iterator, "close"):
            iterator.close()
        del iterator
        gc.collect()


def measure(iterator: Iterator[Any], workers: int, seconds: float) -> tuple[float, float]:
    """Return wall and CPU seconds a batch, over whole rounds of the workers."""
    start = time.perf_counter()
    count = 0
    while count < WARM_BATCHES * workers or time.perf_counter() - start < WARM_SECONDS:
        batch = next(iterator)
        del batch
        count += 1
    count = 0
    cpu = time.process_time()
    start = time.perf_counter()
    while True:
        batch = next(iterator)
        del batch
        count += 1
        if count % workers == 0 and count >= LEAST_BATCHES * workers:
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return elapsed / count, (time.process_time() - cpu) / count


def check(iterator: Iterator[Any], batch: Batch, workers: int) -> None:
    """Compare batches with what they have to be.

    Raises:
        WrongBatchError: one of them is not.
    """
    for index in range(CHECKED_BATCHES * workers):
        tensors = next(iterator)
        right = len(tensors) == len(batch.sizes) and all(
            np.array_equal(np.asarray(tensor), pattern(size, index, place))
            for place, (tensor, size) in enumerate(zip(tensors, batch.sizes, strict=True))
        )
        if not right:
            raise WrongBatchError(f"batch {index} is not what the worker sent")
        del tensors


def value(peer: str, batch: Batch, workers: int, seconds: float, *, checks: bool) -> Value:
    """Return what one batch takes; look at what batches hold in a pass of its own."""
    arrays = peer == "ring"
    ready = Ready(batch, arrays=arrays)
    wall, cpu = using(peer, ready, workers, lambda it: measure(it, workers, seconds))
    if checks:
        ready = Ready(batch, checked=True, arrays=arrays)
        using(peer, ready, workers, lambda it: check(it, batch, workers))
    return Value(peer, batch.name, workers, wall, cpu)


def main() -> None:
    peer, path, seconds, *rest = sys.argv[1:]
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for batch in BATCHES:
        if peer == LIMITS.key:
            _note(path, *transport_limits.measure(batch, Ready(batch), float(seconds)))
            continue
        for workers in WORKERS:
            try:
                found: Any = value(peer, batch, workers, float(seconds), checks=bool(rest))
            except Exception as error:  # another batch may do
                found = Failure(peer, f"{type(error).__name__}: {error}", batch.name, workers)
            _note(path, found)


def _note(path: str, *found: Value | Failure) -> None:
    with Path(path).open("ab") as file:
        file.write(msgspec.json.Encoder().encode_lines(found))


if __name__ == "__main__":
    main()
