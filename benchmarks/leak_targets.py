"""What `leak_faults.py` watches: one factory for each fault that ``feedrate leaks`` names.

The line that allocates what a fault keeps ends in ``# here: NAME``.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import torch
from leak_cases import SHM_PREFIX
from leak_setup import BATCH, ITEMS, Batch, Items, Setup, Step, loader, pause, setup, target
from torch.utils.data import DataLoader, Dataset

_IN_FRONT = 33
"""What a bytes object takes beside its bytes."""
_RECORD = 150
"""What a record of that name takes beside its text."""

GROWN: list[Any] = []
"""What nobody empties: each process has its own."""
_malloc = ctypes.CDLL(None).malloc
_malloc.restype = ctypes.c_void_p
_malloc.argtypes = [ctypes.c_size_t]
_realloc = ctypes.CDLL(None).realloc
_realloc.restype = ctypes.c_void_p
_realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


# Faults of the dataset


class Cache(Items):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.cache: dict[int, Any] = {}

    def touch(self, index: int) -> None:
        if index not in self.cache:
            self.cache[index] = np.ones(self.size, np.uint8)  # here: cache


class Log(Items):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.log: list[bytes] = []

    def touch(self, index: int) -> None:
        self.log.append(bytes(self.size - _IN_FRONT))  # here: dataset_list


class Global(Items):
    def touch(self, index: int) -> None:
        GROWN.append(bytes(self.size - _IN_FRONT))  # here: global_list


class Tensors(Items):
    def touch(self, index: int) -> None:
        GROWN.append(torch.ones(self.size, dtype=torch.uint8))  # here: global_tensors


@functools.cache
def _decoded(index: int, turn: int, size: int) -> Any:
    return np.full(size, index % 256, np.uint8)  # here: lru_cache


class Cached(Items):
    _turn = 0

    def touch(self, index: int) -> None:
        self._turn += 1
        _decoded(index, self._turn, self.size)


class Augment:
    """A transform that remembers what it drew."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.drawn: list[Any] = []

    def __call__(self, value: Any) -> Any:
        self.drawn.append(np.zeros(self.size, np.uint8))  # here: transform
        return value


class Transformed(Items):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.transform = Augment(size)

    def touch(self, index: int) -> None:
        self.transform(index)


class Node:
    """Knows its parent and its child: a cycle."""

    def __init__(self, size: int) -> None:
        self.data = bytes(size)  # here: cycles
        self.me = self


class Cycles(Items):
    """Cycles in a process whose collector is off, as after ``gc.disable()`` for speed."""

    def touch(self, index: int) -> None:
        gc.disable()
        Node(self.size)


class Native(Items):
    """A C library that forgets to free."""

    def touch(self, index: int) -> None:
        address = _malloc(self.size)
        ctypes.memset(address, 1, self.size)


class Fragments(Items):
    """Ever larger blocks, all but the first bytes of each freed: the holes fit no later one."""

    _turn = 0
    _last: int | None = None

    def touch(self, index: int) -> None:
        self._turn += 1
        if self._turn % 8 == 0:
            size = 8 * self.size + 2 * self._turn
            address = _malloc(size)
            ctypes.memset(address, 1, size)
            if self._last is not None:
                _realloc(self._last, 64)
            self._last = address


class OpenFiles(Items):
    def touch(self, index: int) -> None:
        if index % 50 == 0:
            GROWN.append(Path(__file__).open("rb"))  # noqa: SIM115 - # here: open_files


class SharedFiles(Items):
    def touch(self, index: int) -> None:
        name = f"{SHM_PREFIX}{uuid.uuid4().hex}"
        Path("/dev/shm", name).write_bytes(bytes(self.size))


class Records(Items):
    """Records as a list of dicts, copied page by page into forked workers that read them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.records = [
            {"id": i, "name": f"{i:08d}.jpg", "box": [i, i + 1, i + 2]} for i in range(100 * ITEMS)
        ]

    def touch(self, index: int) -> None:
        for record in self.records[index::ITEMS]:
            len(record["name"])


# Faults of the step


def _keep_numbers(size: int) -> Step:
    def step(batch: Batch) -> None:
        pause(batch)
        for value in batch[:, 0].tolist():
            record = {"value": value, "text": bytes(size - _RECORD)}  # here: kept_numbers
            GROWN.append(record)

    return step


def _keep_batches(batch: Batch) -> None:
    pause(batch)
    GROWN.append(batch)


def _keep_losses() -> Step:
    model = torch.nn.Sequential(torch.nn.Linear(16, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))

    def step(batch: Batch) -> None:
        pause(batch)
        loss = model(batch).square().mean()  # here: kept_losses
        GROWN.append(loss)

    return step


def _sum_losses() -> Step:
    model = torch.nn.Linear(16, 64)
    total = torch.zeros(())

    def step(batch: Batch) -> None:
        nonlocal total
        pause(batch)
        total = total + model(batch).square().mean()  # here: growing_graph

    return step


def _add_hooks(size: int) -> Step:
    model = torch.nn.Linear(16, 16)

    def step(batch: Batch) -> None:
        pause(batch)
        kept = bytes(size * len(batch))  # here: callbacks
        model.register_forward_hook(lambda *_: len(kept) and None)

    return step


def _cycles_in_main(size: int) -> Step:
    def step(batch: Batch) -> None:
        gc.disable()
        pause(batch)
        for _ in batch:
            Node(size)

    return step


def _native_in_main(size: int) -> Step:
    def step(batch: Batch) -> None:
        pause(batch)
        address = _malloc(size * len(batch))
        ctypes.memset(address, 1, size * len(batch))

    return step


def _open_files_in_main(batch: Batch) -> None:
    pause(batch)
    GROWN.append(Path(__file__).open("rb"))  # noqa: SIM115 - # here: open_files_in_main


def _keep_iterators(made: Setup) -> Step:
    other = DataLoader(Items(), batch_size=BATCH, num_workers=1, multiprocessing_context="fork")
    count = itertools.count()

    def step(batch: Batch) -> None:
        pause(batch)
        if next(count) % 40 == 0:
            iterator = iter(other)
            next(iterator)
            GROWN.append(iterator)

    return step


class _Index(Items):
    """Each worker reads an index of its own, as a validation set does."""

    def touch(self, index: int) -> None:
        if not GROWN:
            GROWN.append(np.ones(3_000_000))


def _validate_once(made: Setup) -> Step:
    options = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": made.method}
    other = DataLoader(_Index(), batch_size=BATCH, **options)  # type: ignore[arg-type]
    steps = itertools.count()

    def step(batch: Batch) -> None:
        pause(batch)
        if next(steps) == 10:
            for _ in other:
                pass

    return step


class Large(Dataset[Any]):
    """Batches of six mebibytes."""

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> Any:
        return torch.full((3, 256, 256), float(index))


def _deep_queue() -> tuple[Any, Step]:
    made = setup()
    large = loader(Large(), made, batch_size=8, prefetch_factor=8)
    return large, lambda batch: time.sleep(0.06)


def cache() -> Any:
    return target(Cache)


def dataset_list() -> Any:
    return target(Log)


def global_list() -> Any:
    return target(Global)


def global_tensors() -> Any:
    return target(Tensors)


def lru_cache() -> Any:
    return target(Cached)


def transform() -> Any:
    return target(Transformed)


def cycles() -> Any:
    return target(Cycles)


def native() -> Any:
    return target(Native)


def fragments() -> Any:
    return target(Fragments)


def open_files() -> Any:
    return target(OpenFiles)


def shared_files() -> Any:
    return target(SharedFiles)


def copy_on_write() -> Any:
    return target(Records)


def kept_numbers() -> Any:
    return target(Items, _keep_numbers(setup().size))


def kept_batches() -> Any:
    return target(Items, _keep_batches)


def kept_losses() -> Any:
    return target(Items, _keep_losses())


def growing_graph() -> Any:
    return target(Items, _sum_losses())


def callbacks() -> Any:
    return target(Items, _add_hooks(setup().size))


def cycles_in_main() -> Any:
    return target(Items, _cycles_in_main(setup().size))


def native_in_main() -> Any:
    return target(Items, _native_in_main(setup().size))


def open_files_in_main() -> Any:
    return target(Items, _open_files_in_main)


def kept_iterators() -> Any:
    return target(Items, _keep_iterators(setup()))


def idle_workers() -> Any:
    return target(Items, _validate_once(setup()))


def deep_queue() -> Any:
    return _deep_queue()
