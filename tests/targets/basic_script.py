"""A script that hands over what it defines, run as people run one."""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from feedrate.measure.handover import hand_over


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor(index)


def make_loader():
    return DataLoader(Numbers(), batch_size=4)


def step(batch):
    return batch.sum()


if __name__ == "__main__":
    import msgspec

    batch_size = 2
    targets = {
        "function": (make_loader, None),
        "class": (Numbers, None),
        "lambda": (lambda: DataLoader(Numbers(), batch_size=batch_size), None),
        "loader": (DataLoader(Numbers(), batch_size=3), None),
        "dataset": (Numbers(), None),
        "with step": (make_loader, step),
    }
    handovers = {name: hand_over(*target) for name, target in targets.items()}
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(handovers))
