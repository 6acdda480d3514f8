"""What `leak_faults.py` watches beside faults: factories of what only seems to leak."""

from __future__ import annotations

import collections
import copy
import functools
import json
import os
import random
import tempfile
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import torch
from leak_setup import ITEMS, Batch, Items, Step, loader, pause, setup, target

from feedrate.remedies.shared_list import SharedList

_FILE = 64 * 1024 * ITEMS


class Node:
    """Knows itself: a cycle."""

    def __init__(self, size: int) -> None:
        self.data = bytes(size)
        self.me = self


class Bounded(Items):
    """A cache of 80 items of 64 KiB."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.cache: collections.OrderedDict[int, Any] = collections.OrderedDict()

    def touch(self, index: int) -> None:
        if index not in self.cache:
            self.cache[index] = np.ones(65_536, np.uint8)
            while len(self.cache) > 80:
                self.cache.popitem(last=False)


@functools.lru_cache(maxsize=100)
def _row(index: int) -> Any:
    return np.ones(32_768, np.uint8)


class BoundedLru(Items):
    def touch(self, index: int) -> None:
        _row(index)


class LateTable(Items):
    """Something large that is set up once, some epochs after the start."""

    _seen = 0

    def touch(self, index: int) -> None:
        self._seen += 1
        if self._seen == 2200:
            self.table = np.ones(20_000_000, np.uint8)


class Collected(Items):
    """Cycles that Python's collector ends now and then."""

    def touch(self, index: int) -> None:
        Node(2048)


class Mapped(Items):
    """Rows of a memory-mapped file."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.path = _file(_FILE)
        self.rows: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"rows": None}

    def touch(self, index: int) -> None:
        if self.rows is None:
            self.rows = np.memmap(self.path, np.uint8, "r").reshape(ITEMS, -1)
        int(self.rows[index].sum())


class Files(Items):
    """Files read whole: the page cache grows."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.path = _file(_FILE)

    def touch(self, index: int) -> None:
        with Path(self.path).open("rb") as file:
            file.seek(65_536 * index)
            file.read(65_536)


class Shared(Items):
    """One large array that all processes have in common under fork."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.data = np.ones((ITEMS, 64 * 1024), np.uint8)

    def touch(self, index: int) -> None:
        int(self.data[index].sum())


class Varying(Items):
    """Images of all sizes, decoded and cut."""

    def touch(self, index: int) -> None:
        side = int(np.clip(np.random.lognormal(5, 0.6), 16, 900))
        np.ones((side, side, 3), np.float32)[:16, :16].copy()


class Parsed(Items):
    """Text that is parsed for each item."""

    def touch(self, index: int) -> None:
        json.loads(json.dumps([{"id": i, "name": f"{index}-{i}"} for i in range(60)]))


class Packed(Items):
    """Records in a `SharedList`."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        made = ({"id": i, "name": f"{i:08d}.jpg", "box": [i, i + 1]} for i in range(20 * ITEMS))
        self.records = SharedList(made)

    def touch(self, index: int) -> None:
        for i in range(index, len(self.records), ITEMS):
            len(self.records[i]["name"])


class InThreads(Items):
    """Threads that allocate and free: each has an arena of the C allocator's, up to a number."""

    def touch(self, index: int) -> None:
        if index % 20 == 0:
            threads = [threading.Thread(target=_fill_and_free) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()


def _fill_and_free() -> None:
    kept = [np.ones(20_000, np.uint8) for _ in range(20)]
    kept.clear()


class Traced(Parsed):
    """What tracemalloc notes of each living object is its own memory."""

    def touch(self, index: int) -> None:
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        super().touch(index)


def _file(size: int) -> str:
    """Return a file of so many bytes, made once."""
    path = Path(tempfile.gettempdir()) / f"feedrate-leak-target-{size}"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(bytes(size))
        part.replace(path)
    return str(path)


def _train() -> Step:
    model = torch.nn.Sequential(torch.nn.Linear(16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    kept: dict[str, Any] = {"losses": [], "last": collections.deque(maxlen=200)}

    def step(batch: Batch) -> None:
        pause(batch)
        optimizer.zero_grad()
        loss = model(batch / ITEMS).square().mean()
        loss.backward()
        optimizer.step()
        kept["losses"].append(loss.item())
        kept["last"].append(loss.detach())
        if random.random() < 0.05:
            kept["best"] = copy.deepcopy(model.state_dict())

    return step


def still() -> Any:
    return target(Items)


def no_step() -> Any:
    made = setup()
    return loader(Items(), made)


def bounded_cache() -> Any:
    return target(Bounded)


def bounded_lru_cache() -> Any:
    return target(BoundedLru)


def late_table() -> Any:
    return target(LateTable)


def collected_cycles() -> Any:
    return target(Collected)


def mapped_file() -> Any:
    return target(Mapped)


def page_cache() -> Any:
    return target(Files)


def shared_array() -> Any:
    return target(Shared)


def varying_sizes() -> Any:
    return target(Varying)


def parsed_text() -> Any:
    return target(Parsed)


def shared_list() -> Any:
    return target(Packed)


def thread_arenas() -> Any:
    return target(InThreads)


def traced() -> Any:
    return target(Traced)


def training() -> Any:
    return target(Items, _train())
