"""How the targets of `leak_faults.py` are made: their loader, their items, their step.

What is asked for is read from the environment: ``LEAK_SETUP`` is "METHOD WORKERS KEPT BYTES", as
"fork 2 1 200".
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

SETUP = "LEAK_SETUP"
ITEMS = 1000
BATCH = 25
_STEP_SECONDS = 0.002
_SMALL = 1000

Batch = Any
Step = Callable[[Batch], object]

malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t]
realloc = ctypes.CDLL(None).realloc
realloc.restype = ctypes.c_void_p
realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@dataclass(frozen=True, slots=True)
class Setup:
    """How a target is to be made; ``size`` is what a fault keeps of each item, in bytes."""

    method: str
    workers: int
    kept: bool
    size: int


def setup() -> Setup:
    """Return what the environment asks for."""
    method, workers, kept, size = os.environ.get(SETUP, "fork 2 0 2048").split()
    return Setup(method, int(workers), kept == "1", int(size))


class Items(Dataset[Any]):
    """A thousand small items; ``touch`` is what a fault or a harmless pattern adds."""

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.length = ITEMS

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        self.touch(index)
        return torch.full((16,), float(index))

    def touch(self, index: int) -> None:
        """Do what is to be watched."""


def loader(dataset: Dataset[Any], made: Setup, **options: Any) -> DataLoader[Any]:
    """Return a loader over a dataset, as the setup says."""
    if made.workers:
        options |= {"multiprocessing_context": made.method, "persistent_workers": made.kept}
    options = {"batch_size": BATCH, "shuffle": True} | options
    return DataLoader(dataset, num_workers=made.workers, **options)


def pause(batch: Batch) -> None:
    """Stand for a step."""
    time.sleep(_STEP_SECONDS)


def wait_for_ever() -> None:
    """Be a thread that nobody ends."""
    threading.Event().wait()


def target(dataset: Callable[[int], Items], step: Step = pause) -> tuple[Any, Step]:
    """Return a loader over such a dataset, and a step."""
    made = setup()
    items = dataset(made.size)
    in_workers = made.workers and type(items) is not Items
    if in_workers and not made.kept and 0 < made.size < _SMALL:
        # What is given back when the epoch ends is worth a word where it is mebibytes.
        items.length = 8 * ITEMS
    return loader(items, made), step
