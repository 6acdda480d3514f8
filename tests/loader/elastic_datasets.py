"""Datasets as users write them, importable by spawned workers."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    """Item i is i, in a tensor of its own; it may take ``seconds``."""

    def __init__(self, length: int = 60, seconds: float = 0.0) -> None:
        self.length = length
        self.seconds = seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((4, 4), float(index)), index


class Draws(Numbers):
    """Random numbers of all three generators, and who drew them."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        drawn = (random.random(), float(np.random.rand()), float(torch.rand(1)))
        return (info.id, info.num_workers, info.seed, *drawn)


class Raises(Numbers):
    def __getitem__(self, index: int) -> Any:
        if index == 17:
            raise KeyError("seventeen")
        return super().__getitem__(index)


class Stream(IterableDataset):
    """Shares 0 to ``length`` out among the workers, unevenly."""

    def __init__(self, length: int = 50) -> None:
        self.length = length

    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is not None
        first = info.id
        step = info.num_workers
        if info.id == 0:
            return iter(range(0, self.length // 2, step))
        return iter(range(first, self.length, step))


class Kills(Numbers):
    """Kills its worker at item 17, every time."""

    def __getitem__(self, index: int) -> Any:
        if index == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class KillsOnce(Numbers):
    """Kills its worker at item 17 in the way given, as long as the mark file is not there."""

    def __init__(self, mark: str, number: int) -> None:
        super().__init__()
        self.mark = mark
        self.number = number

    def __getitem__(self, index: int) -> Any:
        if index == 17 and not Path(self.mark).exists():
            Path(self.mark).touch()
            if self.number:
                os.kill(os.getpid(), self.number)
            else:
                os._exit(3)
        return super().__getitem__(index)


class Sticks(Numbers):
    def __getitem__(self, index: int) -> Any:
        if index == 17:
            time.sleep(1000)
        return super().__getitem__(index)


class Unsendable(Numbers):
    def __getitem__(self, index: int) -> Any:
        return lambda: index


class Texts(Numbers):
    """Large messages without a tensor: they do not fit into a socket's buffer."""

    def __getitem__(self, index: int) -> Any:
        return f"{index} " + "x" * 2_000_000


class Eats(Numbers):
    """Takes memory for good in each worker, once."""

    kept: bytearray | None = None
    most = 0

    def __getitem__(self, index: int) -> Any:
        if Eats.kept is None:
            Eats.kept = bytearray(os.urandom(1) * self.most)
        return super().__getitem__(index)
