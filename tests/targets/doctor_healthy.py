"""Loaders with nothing wrong: what doctor is to say nothing about."""

import random
import time
from collections import OrderedDict

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


def tensors():
    """Nothing but tensors, in the main process."""
    data = TensorDataset(torch.rand(2000, 16), torch.randint(0, 2, (2000,)))
    return DataLoader(data, batch_size=16, shuffle=True)


class Augmented(Dataset):
    """Random augmentation by all three generators, seeded by torch."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.0005)
        flip = random.random() < 0.5
        image = np.random.randint(0, 255, (3, 16, 16)).astype(np.float32)
        return torch.from_numpy(image[:, :, ::-1].copy() if flip else image), index


def augmented():
    return DataLoader(Augmented(), batch_size=16, shuffle=True, num_workers=2)


def augmented_kept():
    return DataLoader(
        Augmented(), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True
    )


class Bounded(Dataset):
    """A cache that stops growing."""

    def __init__(self):
        self.cache = OrderedDict()

    def __len__(self):
        return 1200

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = np.full((256, 256), index, dtype=np.float32)
            while len(self.cache) > 40:
                self.cache.popitem(last=False)
        return float(self.cache[index][0, 0])


def bounded_cache():
    return DataLoader(Bounded(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)


class Shards(IterableDataset):
    """A stream that its workers share out."""

    def __len__(self):
        return 600

    def __iter__(self):
        info = get_worker_info()
        first, count = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, 600, count):
            time.sleep(0.001)
            yield torch.tensor(number)


def shards():
    return DataLoader(Shards(), batch_size=10, num_workers=2)


class Lazy(Dataset):
    """A file that each worker opens for itself, and one big array."""

    def __init__(self):
        self.file = None
        self.rows = np.ones((3000, 64), dtype=np.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if self.file is None:
            self.file = open("/dev/null", "rb")  # noqa: SIM115
        time.sleep(0.0003)
        return torch.from_numpy(self.rows[index])


def lazy():
    return DataLoader(Lazy(), batch_size=32, shuffle=True, num_workers=2)


def bound_by_step():
    data = TensorDataset(torch.rand(2000, 16), torch.randint(0, 2, (2000,)))
    return DataLoader(data, batch_size=16, shuffle=True)


def step(batch):
    time.sleep(0.015)
