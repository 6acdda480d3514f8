"""Loops that keep something, each at a line that ends in "# makes NAME", and some that do not."""

import collections
import functools

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

ITEMS = 128
REGISTRY = []
HISTORY = []
BATCHES = {}
SMALL = 140  # with the object's head about 200 bytes in all


class Plain(Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return torch.full((8,), float(index))


class Cache(Plain):
    def __init__(self):
        self.cache = {}

    def __getitem__(self, index):
        self.cache[len(self.cache)] = np.full(64, index, dtype=np.float32)  # makes cache
        return super().__getitem__(index)


class TensorCache(Plain):
    def __init__(self):
        self.kept = []

    def __getitem__(self, index):
        item = torch.zeros(3, 8, 8) + index  # makes tensor_cache
        self.kept.append(item)
        return super().__getitem__(index)


class Small(Plain):
    def __init__(self):
        self.log = []

    def __getitem__(self, index):
        self.log.append(bytes(SMALL))  # makes small
        return super().__getitem__(index)


class Registered(Plain):
    def __getitem__(self, index):
        record = {"index": index, "name": f"image-{index}-{len(REGISTRY)}"}  # makes registered
        REGISTRY.append(record)
        return super().__getitem__(index)


@functools.cache
def decode(number):
    return np.zeros(64, dtype=np.float32)  # makes decoded


class Cached(Plain):
    def __init__(self):
        self.count = 0

    def __getitem__(self, index):
        self.count += 1
        decode(self.count)
        return super().__getitem__(index)


@functools.lru_cache(maxsize=4000)
def decode_some(number):
    return np.zeros(4096, dtype=np.float32)  # makes some


class Limited(Plain):
    def __init__(self):
        self.count = 0

    def __getitem__(self, index):
        self.count += 1
        decode_some(self.count)
        return super().__getitem__(index)


class Node:
    def __init__(self):
        self.children = []
        self.data = bytearray(4000)  # makes cycle

    def add(self, child):
        child.parent = self
        self.children.append(child)


class Cyclic(Plain):
    def __getitem__(self, index):
        Node().add(Node())
        return super().__getitem__(index)


class Stream(IterableDataset):
    def __init__(self):
        self.seen = {}

    def __iter__(self):
        for index in range(ITEMS):
            self.seen[len(self.seen)] = "x" * (SMALL + index)  # makes stream
            yield torch.full((8,), float(index))


class Bounded(Plain):
    """A cache of the most recent items; it is full soon."""

    def __init__(self):
        self.recent = collections.OrderedDict()
        self.count = 0

    def __getitem__(self, index):
        self.count += 1
        self.recent[self.count] = np.full(64, index, dtype=np.float32)
        if len(self.recent) > 100:
            self.recent.popitem(last=False)
        return super().__getitem__(index)


class Warming(Plain):
    """Makes a table at the first item, and keeps it."""

    table = None

    def __getitem__(self, index):
        if self.table is None:
            self.table = [bytes(200) for _ in range(1000)]
        return super().__getitem__(index)


def make_loader(dataset, **options):
    return DataLoader(dataset, batch_size=8, **options)


# Steps

MODEL = torch.nn.Linear(8, 64)


def keeps_losses(batch):
    loss = MODEL(batch).square().mean()  # makes loss
    HISTORY.append(loss)


def keeps_batches(batch):
    BATCHES[len(BATCHES)] = batch.clone()  # makes batch


def make_callback():
    seen = []

    def callback(batch):
        seen.append(batch.sum(1).tolist())  # makes callback

    return callback


class Running:
    def __init__(self):
        self.total = torch.zeros(())

    def __call__(self, batch):
        loss = MODEL(batch).square().mean()
        self.total = self.total + loss  # makes total


class PerEpoch:
    """Keeps the losses of one epoch as numbers, and begins anew with each."""

    def __init__(self, batches):
        self.batches = batches
        self.losses = []

    def __call__(self, batch):
        if len(self.losses) == self.batches:
            self.losses = []
        self.losses.append(bytes(2000) + b"loss")


def forget():
    REGISTRY.clear()
    HISTORY.clear()
    BATCHES.clear()
    decode.cache_clear()
    decode_some.cache_clear()
