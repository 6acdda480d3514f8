"""Kills workers at random, many times, and checks every batch: ``python benchmarks/kills.py [N]``

Writes results/kills.md. SIGKILL and SIGSEGV by turns of chance, N (200) of them over as many epochs
as it takes, with four workers, in order; both transports. Every batch has to come once, whole and
in its place, and nothing may be left: processes, descriptors, files in /dev/shm.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import psutil
import tables
import torch
from torch.utils.data import Dataset

from feedrate.loader.dataloader import DataLoader

ITEMS = 400
BATCH = 8


class Numbers(Dataset):
    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.0005)
        return torch.full((64, 64), float(index)), index


class Killer(threading.Thread):
    def __init__(self, loader: Any, most: int) -> None:
        super().__init__(daemon=True)
        self.loader = loader
        self.left = most
        self.rng = random.Random(0)

    def run(self) -> None:
        while self.left:
            time.sleep(self.rng.uniform(0.02, 0.2))
            iterator = self.loader._latest()
            with contextlib.suppress(ProcessLookupError, IndexError, AttributeError, ValueError):
                process = self.rng.choice(iterator._workers)
                os.kill(process.pid, self.rng.choice([signal.SIGKILL, signal.SIGSEGV]))
                self.left -= 1
            del iterator


def left_over() -> tuple[int, int, int]:
    """Return children, descriptors and entries in /dev/shm."""
    children = psutil.Process().children(recursive=True)
    alive = [c for c in children if "resource_tracker" not in " ".join(c.cmdline())]
    descriptors, files = (list(Path(name).iterdir()) for name in ("/proc/self/fd", "/dev/shm"))
    return len(alive), len(descriptors), len(files)


def torture(transport: Any, kills: int) -> list[str]:
    loader = DataLoader(
        Numbers(),
        batch_size=BATCH,
        num_workers=4,
        persistent_workers=True,
        on_worker_death="replace",
        transport=transport,
    )
    killer = Killer(loader, kills)
    killer.start()
    start = time.perf_counter()
    epochs = wrong = 0
    while killer.is_alive() or epochs < 1:
        expected = 0
        for data, index in loader:
            whole = index.tolist() == list(range(expected, expected + len(index)))
            wrong += not (whole and bool((data == index[:, None, None]).all()))
            expected += len(index)
        wrong += expected != ITEMS
        epochs += 1
    seconds = time.perf_counter() - start
    restarts = loader.stats().restarts
    killer.join()
    return [transport, str(kills), str(restarts), str(epochs), str(wrong), f"{seconds:.0f}"]


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    logging.getLogger("feedrate").setLevel(logging.ERROR)
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    torture("torch", 1)  # what is opened once and stays, is opened
    before = left_over()
    rows = [torture(transport, kills) for transport in ("arena", "torch")]
    after = left_over()
    tables.write(
        "kills.md",
        "# Random kills",
        tables.made_by("kills.py"),
        f"Four workers, {ITEMS} items in batches of {BATCH} an epoch. Left over at the end, beyond "
        f"what there was at the beginning: {after[0] - before[0]} processes, "
        f"{after[1] - before[1]} descriptors, {after[2] - before[2]} entries in /dev/shm.",
        tables.table(
            ["transport", "kills", "workers replaced", "epochs", "wrong batches", "seconds"], rows
        ),
    )


if __name__ == "__main__":
    main()
