"""Factories of every kind that people write."""

import functools

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __init__(self, length=16):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.tensor([float(index), float(index) ** 2])


class Table:
    """Can be indexed and has a length, as a datasets.Dataset, and is nobody's Dataset."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"x": torch.tensor(self.rows[index])}


class LoaderMaker:
    def __call__(self, batch_size=4):
        return DataLoader(Squares(), batch_size=batch_size)


class NotCallable:
    pass


loader = DataLoader(Squares(), batch_size=8)
dataset = Squares(5)
table = Table([1, 2, 3])
pair = (DataLoader(Squares()), print)
maker = LoaderMaker()
partial = functools.partial(LoaderMaker(), batch_size=2)
short = lambda: DataLoader(Squares(), batch_size=3)  # noqa: E731
number = 5


def make_loader():
    return DataLoader(Squares(), batch_size=4)


def make_dataset():
    return Squares()


def make_tensors():
    return TensorDataset(torch.arange(6.0))


def make_pair():
    return make_loader(), lambda batch: batch.sum()


def make_pair_without_step():
    return make_loader(), None


def make_two_loaders():
    return make_loader(), make_loader()


def make_three():
    return make_loader(), print, 3


def make_list():
    return [make_loader(), print]


def make_generator():
    yield from make_loader()


def make_nothing():
    make_loader()


def make_model():
    return torch.nn.Sequential(torch.nn.Linear(2, 2))


def make_mapping():
    return {"train": make_loader()}


def needs_a_path(path):
    return make_loader()


def step(batch):
    return batch.sum()
