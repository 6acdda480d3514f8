"""What `leak_faults.py` watches beside them: one factory for each fault of a training step."""

from __future__ import annotations

import ctypes
import gc
import itertools
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from leak_setup import (
    BATCH,
    Batch,
    Items,
    Setup,
    Step,
    loader,
    malloc,
    pause,
    setup,
    target,
    wait_for_ever,
)
from torch.utils.data import DataLoader, Dataset

GROWN: list[Any] = []
"""What nobody empties."""
_RECORD = 150
"""What a record of that name takes beside its text."""


class Node:
    """Knows itself: a cycle."""

    def __init__(self, size: int) -> None:
        self.data = bytes(size)  # here: cycles_in_main
        self.me = self


def _keep_numbers(size: int) -> Step:
    def step(batch: Batch) -> None:
        pause(batch)
        for value in batch[:, 0].tolist():
            record = {"value": value, "text": bytes(size - _RECORD)}  # here: kept_numbers
            GROWN.append(record)

    return step


class Wide(Items):
    """Batches of 50 KiB, as each also takes a descriptor and a page."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((512,), float(index))


def _keep_batches(batch: Batch) -> None:
    pause(batch)
    batch.mean()  # a step reads its batch; only then are the pages this process's too
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
        address = malloc(size * len(batch))
        ctypes.memset(address, 1, size * len(batch))

    return step


def _open_files_in_main(batch: Batch) -> None:
    pause(batch)
    GROWN.append(Path(__file__).open("rb"))  # noqa: SIM115 - # here: open_files_in_main


def _start_threads() -> Step:
    steps = itertools.count()

    def step(batch: Batch) -> None:
        pause(batch)
        if next(steps) % 5 == 0:
            threading.Thread(target=wait_for_ever, daemon=True).start()  # here: threads_in_main

    return step


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
    """Batches of six mebibytes, enough of them in an epoch to fill a queue of sixteen."""

    def __len__(self) -> int:
        return 320

    def __getitem__(self, index: int) -> Any:
        return torch.full((3, 256, 256), float(index))


def _deep_queue() -> tuple[Any, Step]:
    made = setup()
    large = loader(Large(), made, batch_size=8, prefetch_factor=8)
    return large, lambda batch: time.sleep(0.06)


def kept_numbers() -> Any:
    return target(Items, _keep_numbers(setup().size))


def kept_batches() -> Any:
    return target(Wide, _keep_batches)


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


def threads_in_main() -> Any:
    return target(Items, _start_threads())


def kept_iterators() -> Any:
    return target(Items, _keep_iterators(setup()))


def idle_workers() -> Any:
    return target(Items, _validate_once(setup()))


def deep_queue() -> Any:
    return _deep_queue()
