"""Is `feedrate.DataLoader` with a fixed number of workers as fast as torch's class?

``python benchmarks/elastic_overhead.py`` writes results/elastic_overhead.md. Pairs in turns, in
one process, over one epoch's middle each; the ratio is feedrate's rate over torch's.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from typing import Any

import tables
import torch
import workloads
from torch.utils.data import DataLoader as TorchLoader

from feedrate.loader.dataloader import DataLoader

PAIRS = 9
SECONDS = 1.5
CASES = [
    (workloads.Work("tiny items, 2 workers", workloads.Tiny(), 256), 2),
    (workloads.Work("JPEG photographs, 2 workers", workloads.Photographs(), 32), 2),
    (workloads.Work("5 ms of waiting an item, 8 workers", workloads.Waits(), 16), 8),
    (workloads.Work("big batches (24 MiB), 1 worker", workloads.Big(), 32), 1),
]


def measure(kind: Any, work: workloads.Work, workers: int) -> float:
    iterator = iter(kind(work.dataset, **work.options(num_workers=workers)))
    for _ in range(4 * workers):
        next(iterator)
    return workloads.rate(iterator, work.step, SECONDS, workers)


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    rows = []
    for work, workers in CASES:
        ratios = []
        for pair in range(PAIRS):
            order = (DataLoader, TorchLoader) if pair % 2 else (TorchLoader, DataLoader)
            rates = {kind: measure(kind, work, workers) for kind in order}
            ratios.append(rates[DataLoader] / rates[TorchLoader])
            print(f"{work.name}: {ratios[-1]:.3f}", file=sys.stderr)
        middle = statistics.median(ratios)
        rows.append([work.name, f"{middle:.3f}", f"{min(ratios):.3f}–{max(ratios):.3f}"])
    tables.write(
        "elastic_overhead.md",
        "# A fixed number of workers: feedrate.DataLoader against torch's class",
        tables.made_by("elastic_overhead.py"),
        f"feedrate's rate over torch's, {PAIRS} pairs in turns of {SECONDS:g} s each "
        "(goal: at least 0.99).",
        tables.table(["Work", "median ratio", "min–max"], rows),
    )


if __name__ == "__main__":
    main()
