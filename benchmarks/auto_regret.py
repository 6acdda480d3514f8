"""How close does ``num_workers="auto"`` come to the best fixed number of workers?

``python benchmarks/auto_regret.py`` writes results/auto_regret.md. For each kind of work: the loop
runs with "auto" for 10 s, and then its rate is measured; then torch's class with every number of
workers of the grid; then both once more. The regret is how far the median of "auto" lies below the
best median of the grid.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings

import tables
import torch
import workloads
from torch.utils.data import DataLoader as TorchLoader

from feedrate.loader.dataloader import DataLoader

GRID = (0, 1, 2, 3, 4, 8, 12, 16)
LEARNING_SECONDS = 10.0
SECONDS = 1.5
ROUNDS = 2


def auto(work: workloads.Work) -> tuple[float, float | None, str]:
    """Return the rate after ten seconds, when it had settled, and what it chose."""
    loader = DataLoader(work.dataset, **work.options(num_workers="auto", max_workers=16))
    iterator = iter(loader)
    start = time.perf_counter()
    settled: float | None = None
    while (now := time.perf_counter() - start) < LEARNING_SECONDS:
        work.step(next(iterator))
        if settled is None and loader.settings is not None:
            settled = now
    rate = workloads.rate(iterator, work.step, SECONDS, loader.active_workers)
    chosen = f"{loader.active_workers} workers, prefetch {loader.prefetch_factor}"
    return rate, settled, chosen


def fixed(work: workloads.Work, workers: int) -> float:
    iterator = iter(TorchLoader(work.dataset, **work.options(num_workers=workers)))
    for _ in range(4 * max(workers, 1)):
        work.step(next(iterator))
    return workloads.rate(iterator, work.step, SECONDS, max(workers, 1))


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    rows = []
    for work in workloads.all_work():
        autos, times, choices = [], [], []
        grid: dict[int, list[float]] = {workers: [] for workers in GRID}
        for _ in range(ROUNDS):
            rate, settled, chosen = auto(work)
            autos.append(rate)
            times.append(settled)
            choices.append(chosen)
            for workers in GRID:
                grid[workers].append(fixed(work, workers))
        medians = {workers: statistics.median(rates) for workers, rates in grid.items()}
        best = max(medians, key=lambda workers: medians[workers])
        mine = statistics.median(autos)
        regret = 1 - mine / medians[best]
        rows.append(
            [
                work.name,
                f"{mine * work.batch_size:,.0f}",
                "; ".join(dict.fromkeys(choices)),
                "not yet" if None in times else f"{max(t for t in times if t is not None):.1f}",
                f"{best}",
                f"{medians[best] * work.batch_size:,.0f}",
                f"{regret:+.1%}",
            ]
        )
        print(rows[-1], file=sys.stderr)
    tables.write(
        "auto_regret.md",
        '# num_workers="auto" against the best fixed number',
        tables.made_by("auto_regret.py"),
        f"Medians of {ROUNDS} rounds, each {LEARNING_SECONDS:g} s of training with "
        f'"auto" and {SECONDS:g} s of measuring; the grid is torch\'s class with '
        f"{', '.join(map(str, GRID))} workers. Regret is how far below the grid's best "
        '"auto" is (goal: 3 %); below zero it is faster.',
        tables.table(
            [
                "Work",
                "auto, items/s",
                "it chose",
                "settled after at most, s",
                "best of the grid",
                "items/s",
                "regret",
            ],
            rows,
        ),
    )


if __name__ == "__main__":
    main()
