"""Loaders whose memory grows by a known amount for each item, and some that only seem to."""

import itertools
import threading

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ITEMS = 2000
KEPT = []


class Keeps(Dataset):
    """Keeps so many bytes of each item for good; ``None`` keeps a bounded number of large ones."""

    def __init__(self, kept, items=ITEMS):
        self.kept = kept
        self.items = items
        self.held = []

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        if self.kept is None:
            self.held = [*self.held[-19:], np.ones(128 * 1024)]
        elif self.kept:
            self.held.append(bytes(self.kept - 33))  # what a bytes object takes beside them
        return torch.full((8,), float(index))


class Frames(Dataset):
    """More indices than anybody wants in a list, and items of half a mebibyte."""

    def __len__(self):
        return 2_500_000

    def __getitem__(self, index):
        return torch.zeros(2**19, dtype=torch.uint8)


def keep_batch(batch):
    KEPT.append(bytes(200 * len(batch)))


def _loader(kept, workers=2, items=ITEMS, **options):
    return DataLoader(Keeps(kept, items), batch_size=50, num_workers=workers, **options)


def two_hundred_bytes_in_a_worker():
    return _loader(200, persistent_workers=True)


def ten_kibibytes_in_workers_of_one_epoch():
    return _loader(10 * 1024, items=4000)


def two_hundred_bytes_in_the_main_process():
    return _loader(0, workers=0), keep_batch


def a_bounded_cache():
    return _loader(None, items=400, persistent_workers=True)


def still():
    return _loader(0, workers=0)


def a_deep_queue_of_shuffled_frames():
    return DataLoader(Frames(), batch_size=9, shuffle=True, num_workers=2, prefetch_factor=8)


def breaks():
    raise ValueError("no such data")


def threads_that_nobody_ends():
    steps = itertools.count()

    def step(batch):
        if next(steps) % 5 == 0:
            threading.Thread(target=threading.Event().wait, daemon=True).start()

    return _loader(0, workers=0), step
