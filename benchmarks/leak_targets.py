"""What `leak_faults.py` watches: one factory for each fault of a dataset.

The line that allocates what a fault keeps ends in ``# here: NAME``.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import torch
from leak_cases import SHM_PREFIX
from leak_setup import (
    ITEMS,
    Items,
    loader,
    malloc,
    pause,
    realloc,
    setup,
    target,
    wait_for_ever,
)

_IN_FRONT = 33
"""What a bytes object takes beside its bytes."""

_EACH = 300
"""So many records does an item read."""

GROWN: list[Any] = []
"""What nobody empties: each process has its own."""


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
        address = malloc(self.size)
        ctypes.memset(address, 1, self.size)


class Fragments(Items):
    """Ever larger blocks, all but the first bytes of each freed: the holes fit no later one."""

    _turn = 0
    _last: int | None = None

    def touch(self, index: int) -> None:
        self._turn += 1
        if self._turn % 8 == 0:
            size = 8 * self.size + 2 * self._turn
            address = malloc(size)
            ctypes.memset(address, 1, size)
            if self._last is not None:
                realloc(self._last, 64)
            self._last = address


class OpenFiles(Items):
    def touch(self, index: int) -> None:
        if index % 50 == 0:
            GROWN.append(Path(__file__).open("rb"))  # noqa: SIM115 - # here: open_files


class Threads(Items):
    def touch(self, index: int) -> None:
        if index % 20 == 0:
            threading.Thread(target=wait_for_ever, daemon=True).start()  # here: threads


class SharedFiles(Items):
    def touch(self, index: int) -> None:
        name = f"{SHM_PREFIX}{uuid.uuid4().hex}"
        Path("/dev/shm", name).write_bytes(bytes(self.size))


class Records(Items):
    """Records as a list of dicts, copied page by page into forked workers that read them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.records = [
            {"id": i, "name": f"{i:08d}.jpg", "box": [i, i + 1, i + 2]}
            for i in range(_EACH * ITEMS)
        ]

    def touch(self, index: int) -> None:
        for record in self.records[_EACH * index : _EACH * (index + 1)]:
            len(record["name"])


class Rows(Items):
    """Each item is a row of what a worker read anew, and takes all of it through transport."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((64, 16_384), float(index))[0]


class Many(Items):
    """So many items that a list of their indices is a burden."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.length = 2000 * ITEMS

    def __getitems__(self, indices: list[int]) -> Any:
        return torch.tensor(indices)


def _as_it_is(items: Any) -> Any:
    return items


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


def threads() -> Any:
    return target(Threads)


def shared_files() -> Any:
    return target(SharedFiles)


def copy_on_write() -> Any:
    return target(Records)


def views() -> Any:
    return loader(Rows(), setup(), batch_size=None), pause


def index_list() -> Any:
    return loader(Many(0), setup(), batch_size=4 * ITEMS, collate_fn=_as_it_is), pause
