"""Loaders with one fault each, small and quick: what doctor is to find."""

import ctypes
import os
import random
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Items(Dataset):
    def __init__(self, length=64):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((8,), float(index))


class WithFunction(Items):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def __getitem__(self, index):
        return self.function(super().__getitem__(index))


def lambda_under_spawn():
    data = WithFunction(lambda x: x * 2)
    return DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="spawn")


def lambda_under_fork():
    data = WithFunction(lambda x: x * 2)
    return DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="fork")


class Segfaults(Items):
    def __getitem__(self, index):
        if index == 37:
            ctypes.string_at(0)
        return super().__getitem__(index)


def segfault():
    return DataLoader(Segfaults(), batch_size=4, num_workers=2)


class Ragged(Items):
    def __getitem__(self, index):
        return torch.ones(13 if index == 17 else 10)


def ragged():
    return DataLoader(Ragged(), batch_size=4)


class Stuck(Items):
    def __getitem__(self, index):
        if index == 21:
            time.sleep(3600)
        return super().__getitem__(index)


def stuck():
    return DataLoader(Stuck(), batch_size=4, num_workers=2)


class Masked(Exception):
    def __init__(self, detail):
        self.detail = detail

    def __str__(self):
        return "data error"


class Raises(Items):
    def __getitem__(self, index):
        if index == 5:
            raise Masked("a.jpg is cut off")
        return super().__getitem__(index)


def masked():
    return DataLoader(Raises(), batch_size=2, num_workers=1)


class Augmented(Items):
    def __getitem__(self, index):
        return torch.tensor([index, int(np.random.randint(0, 2**31)), random.randrange(2**31)])


def constant_seed(worker):
    np.random.seed(42 + worker)
    random.seed(42 + worker)


def same_for_all(worker):
    np.random.seed(7)
    random.seed(7)


def seed_of_epochs():
    return DataLoader(Augmented(), batch_size=8, num_workers=2, worker_init_fn=constant_seed)


def seed_of_workers():
    return DataLoader(Augmented(), batch_size=8, num_workers=2, worker_init_fn=same_for_all)


class Repeats(IterableDataset):
    def __iter__(self):
        return iter(range(100))


def repeats():
    return DataLoader(Repeats(), batch_size=8, num_workers=2)


class Sharded(IterableDataset):
    def __init__(self, shards=120):
        self.shards = shards

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for shard in range(first, self.shards, step):
            yield from range(120 // self.shards * shard, 120 // self.shards * (shard + 1))


def drops_per_worker():
    return DataLoader(Sharded(), batch_size=16, num_workers=4, drop_last=True)


def few_shards():
    return DataLoader(Sharded(shards=2), batch_size=16, num_workers=4)


class InMemory(Items):
    def __init__(self):
        super().__init__(8000)
        self.rows = torch.rand(8000, 32)

    def __getitem__(self, index):
        return self.rows[index]


def cheap_items():
    return DataLoader(InMemory(), batch_size=8, num_workers=2, persistent_workers=True)


class Waits(Items):
    def __init__(self):
        super().__init__(160)

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.tensor(index)


def waits_for_storage():
    return DataLoader(Waits(), batch_size=4, num_workers=1)


def step(batch):
    time.sleep(0.002)


class Levels(Items):
    """What a script sets for each epoch, and kept workers do not see."""

    def __init__(self):
        super().__init__()
        self.level = 0

    def __getitem__(self, index):
        return torch.tensor(self.level)


def levels():
    return DataLoader(
        Levels(),
        batch_size=8,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="fork",
    )


class TooLong(Items):
    def __getitem__(self, index):
        if index >= 60:
            raise IndexError(f"there is no item {index}")
        return super().__getitem__(index)


def too_long():
    return DataLoader(TooLong(), batch_size=4, shuffle=True)


def fails_to_load():
    raise FileNotFoundError("there is no /data/train")


class ManyFaults(Items):
    """A generator, a cache, a file and a lambda of its own, many objects, and files left open."""

    def __init__(self):
        super().__init__(300)
        self.rng = np.random.default_rng(0)
        self.cache = {}
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.scale = lambda value: value / 2
        self.rows = [{"id": n, "name": f"picture_{n:08d}.jpg"} for n in range(150_000)]
        self.left_open = []
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        self.left_open.append(open(os.devnull, "rb"))  # noqa: SIM115
        if index not in self.cache:
            self.cache[index] = np.full((256, 256), index, dtype=np.float32)
        return torch.from_numpy(self.rng.normal(size=8))


def many_faults():
    return DataLoader(
        ManyFaults(),
        batch_size=10,
        num_workers=4,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
