"""Trains in as many ranks as torchrun starts, each with its part of the items, on so many CPUs."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Numbers(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.tensor([float(index)])


def main():
    dist.init_process_group("gloo")
    if len(os.sched_getaffinity(0)) != int(sys.argv[1]):
        sys.exit(f"it runs on the CPUs {sorted(os.sched_getaffinity(0))}")
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    sampler = DistributedSampler(Numbers())
    loader = DataLoader(Numbers(), batch_size=4, sampler=sampler)
    for epoch in range(10_000):
        sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
            time.sleep(0.05)


if __name__ == "__main__":
    main()
