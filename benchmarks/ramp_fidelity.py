"""Does one ramp tell what separate runs tell? ``python benchmarks/ramp_fidelity.py``

Writes results/ramp_fidelity.md. One `feedrate.DataLoader` is grown from 1 to 12 workers inside one
iteration; each level is measured over whole rounds of at least 0.6 s after four settling rounds.
Beside it, a static run of torch's class for each level, of the same length, in this process.
"""

from __future__ import annotations

import time
import warnings

import tables
import torch
import workloads
from torch.utils.data import DataLoader as TorchLoader

from feedrate.loader.dataloader import DataLoader

LEVELS = range(1, 13)
SECONDS = 0.6
SETTLING_ROUNDS = 4
BATCH = 16


def ramp() -> tuple[dict[int, float], float]:
    """Return the rate at each level, and the seconds that the whole took."""
    start = time.perf_counter()
    loader = DataLoader(workloads.Waits(), batch_size=BATCH, num_workers=1)
    iterator = iter(loader)
    rates = {}
    for level in LEVELS:
        if level > 1:
            loader.grow()
        for _ in range(SETTLING_ROUNDS * level):
            next(iterator)
        rates[level] = workloads.rate(iterator, workloads.no_step, SECONDS, level) * BATCH
    return rates, time.perf_counter() - start


def static() -> tuple[dict[int, float], float]:
    start = time.perf_counter()
    rates = {}
    for level in LEVELS:
        iterator = iter(TorchLoader(workloads.Waits(), batch_size=BATCH, num_workers=level))
        for _ in range(SETTLING_ROUNDS * level):
            next(iterator)
        rates[level] = workloads.rate(iterator, workloads.no_step, SECONDS, level) * BATCH
        del iterator
    return rates, time.perf_counter() - start


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    ramped, ramp_seconds = ramp()
    alone, static_seconds = static()
    rows = [
        [
            str(level),
            f"{ramped[level]:,.0f}",
            f"{alone[level]:,.0f}",
            f"{ramped[level] / alone[level]:.3f}",
        ]
        for level in LEVELS
    ]
    worst = max(abs(ramped[level] / alone[level] - 1) for level in LEVELS)
    tables.write(
        "ramp_fidelity.md",
        "# One ramp against separate runs",
        tables.made_by("ramp_fidelity.py"),
        f"Items that wait 5 ms, batches of {BATCH}. The ramp took {ramp_seconds:.1f} s, the "
        f"separate runs {static_seconds:.1f} s. The largest difference is {worst:.1%} "
        "(goal: 2 %).",
        tables.table(["workers", "ramp, items/s", "torch alone, items/s", "ratio"], rows),
    )


if __name__ == "__main__":
    main()
