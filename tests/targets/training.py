"""What the training scripts beside this file share: a dataset, a model, a step."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    """Items that take a while, most of it waiting."""

    def __init__(self, length=64, seconds=0.0):
        self.length = length
        self.seconds = seconds

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((3,), float(index)), index % 2


class Trainer:
    """A model with an optimizer."""

    def __init__(self):
        self.model = torch.nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.steps = 0

    def step(self, batch):
        x, y = batch
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()
        self.steps += 1

    @torch.no_grad()
    def test(self, loader):
        for x, _ in loader:
            self.model(x)


def make_loader(length=64, seconds=0.0, **options):
    return DataLoader(Numbers(length, seconds), batch_size=options.pop("batch_size", 4), **options)
