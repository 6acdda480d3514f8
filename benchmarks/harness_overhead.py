"""Does measuring change what is measured? ``python benchmarks/harness_overhead.py``

Writes results/harness_overhead.md. Each pair is a plain hand-written loop in a process of its own
and one run of ``feedrate.bench`` on the same loader, one right after the other, in turns first;
the ratio of their warm rates is what feedrate adds. Apart from it: what the measured loop costs a
batch more than a bare ``for`` (both over batches that are there already), as a share of a batch of
each workload, and the CPU time that the watching process takes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import feedrate
from feedrate import units
from feedrate.analysis.summary import summarize
from feedrate.experiments import idx, photos
from feedrate.host.metadata import gather
from feedrate.measure.executor import Outcome, SubprocessExecutor
from feedrate.measure.wire import ChildSpec

HERE = Path(__file__).parent
PAGE = HERE / "results" / "harness_overhead.md"
EPOCHS = 3
PAIRS = 5

PLAIN = """
import sys, time
from importlib import import_module
module, name, workers, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
import torch
torch.manual_seed(0)
given = dict(word.split("=", 1) for word in sys.argv[5:])
given = {key: int(value) if value.isdigit() else value for key, value in given.items()}
loader, step = getattr(import_module(module), name)(**given)
from torch.utils.data import DataLoader
if workers:
    loader = DataLoader(loader.dataset, batch_size=loader.batch_size, shuffle=True,
                        num_workers=workers, persistent_workers=True)
step.feedrate_warm_up()
items = seconds = 0
for epoch in range(epochs):
    start = time.perf_counter()
    count = 0
    for batch in loader:
        count += len(batch[0])
        step(batch)
    if epoch:
        seconds += time.perf_counter() - start
        items += count
print(items / seconds)
"""


@dataclass(frozen=True)
class Work:
    """One workload: a factory of feedrate's own experiments, its arguments, and the workers."""

    name: str
    module: str
    workers: int
    arguments: dict[str, Any]

    def plain(self) -> float:
        """Return the warm rate of the hand-written loop."""
        words = [self.module, "make_run", str(self.workers), str(EPOCHS)]
        words += [f"{key}={value}" for key, value in self.arguments.items()]
        done = subprocess.run(
            [sys.executable, "-c", PLAIN, *words], capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    def measured(self) -> tuple[float, float, float]:
        """Return feedrate's warm rate, seconds a batch, and the watcher's CPU share of the run."""
        watched = Watched()
        suite = feedrate.bench(
            f"{self.module}:make_run",
            workers=[self.workers],
            epochs=EPOCHS,
            persistent_workers=[True],
            arguments=dict(self.arguments),
            executor=watched,
        )
        (point,) = summarize(suite)
        assert point.rates is not None
        epochs = suite.benchmarks[0].runs[0].epochs[1:]
        batch = sum(e.seconds for e in epochs) / sum(e.batches for e in epochs)
        return point.rates.median, batch, watched.share


class Watched:
    """The usual executor, and the CPU time that this process takes while a child is measured."""

    def __init__(self) -> None:
        self._executor = SubprocessExecutor()
        self._cpu = self._seconds = 0.0

    @property
    def share(self) -> float:
        """The share of one CPU."""
        return self._cpu / self._seconds

    def execute(self, spec: ChildSpec, **how: Any) -> Outcome:
        """Run one child to its end."""
        before, started = _own_cpu(), time.perf_counter()
        outcome = self._executor.execute(spec, **how)
        self._cpu += _own_cpu() - before
        self._seconds += time.perf_counter() - started
        return outcome


def _own_cpu() -> float:
    times = os.times()
    return times.user + times.system


def loop_cost() -> tuple[float, float, float]:
    """Return the seconds a batch that the measured loop takes more than a bare one, with range."""
    import torch

    from feedrate.measure.loop import run_epoch

    batches = [[torch.zeros(256, 1), torch.zeros(256)] for _ in range(2000)]

    def step(batch: Any) -> None:
        pass

    def bare() -> float:
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        return time.perf_counter() - start

    def harness() -> float:
        start = time.perf_counter()
        run_epoch(
            batches,
            step,
            clock=time.perf_counter,
            synchronize=lambda: None,
            on_progress=lambda _: None,
        )
        return time.perf_counter() - start

    differences = [(harness() - bare()) / len(batches) for _ in range(21)]
    return statistics.median(differences), min(differences), max(differences)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        idx.ensure(folder, synthetic=True)
        photos.make_photos(Path(folder) / "photos", count=480)
        fashion = {"data_dir": folder}
        work = [
            Work("photographs, 0 workers", "feedrate.experiments.photo_training", 0,
                 {"folder": f"{folder}/photos"}),
            Work("photographs, 2 workers", "feedrate.experiments.photo_training", 2,
                 {"folder": f"{folder}/photos"}),
            Work("FashionMNIST light, 2 workers", "feedrate.experiments.fashion_mnist", 2,
                 fashion | {"condition": "light", "images": 12_800}),
        ]  # fmt: skip
        rows = [compare(each) for each in work]
    cost, least, most = loop_cost()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(rows, cost, least, most), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


Row = tuple[str, list[float], float, list[float]]


def compare(work: Work) -> Row:
    """Return the workload's ratios, its seconds a batch and the watcher's shares."""
    ratios, shares, batches = [], [], []
    for pair in range(PAIRS):
        if pair % 2:
            plain = work.plain()
            rate, batch, share = work.measured()
        else:
            rate, batch, share = work.measured()
            plain = work.plain()
        ratios.append(rate / plain)
        shares.append(share)
        batches.append(batch)
        print(f"{work.name}: pair {pair + 1} of {PAIRS}: {ratios[-1]:.3f}", file=sys.stderr)
    return work.name, ratios, statistics.median(batches), shares


def render(rows: list[Row], cost: float, least: float, most: float) -> str:
    host = gather("", (), None, "")
    made = (
        f"Made by `python benchmarks/harness_overhead.py` on {host.cpu}, {host.usable_cpus:g} "
        f"usable CPUs, {host.os}, Python {host.python_version}, torch {version('torch')}, "
        f"feedrate {host.feedrate_version}."
    )
    about = (
        "The rate that feedrate measures over that of a plain hand-written loop, warm epochs, "
        "in turns (goal: the median within 5 % of 1). The measured loop takes "
        f"{cost * 1e6:.2f} µs a batch more than a bare one (median of 21, {least * 1e6:.2f} to "
        f"{most * 1e6:.2f}), which is this share of a batch; the process that watches the memory "
        "takes this share of one CPU (goal: less than 1 % each)."
    )
    names = (
        "Workload | pairs | rate ÷ plain loop's (min–max) | a batch | loop's cost | watcher's CPU"
    )
    rule = "|---|---:|---:|---:|---:|---:|"
    lines = ["# What measuring costs", "", made, "", about, "", f"| {names} |", rule]
    for name, ratios, batch, shares in rows:
        middle = statistics.median(ratios)
        lines.append(
            f"| {name} | {len(ratios)} | {middle:.3f} ({min(ratios):.3f}–{max(ratios):.3f}) | "
            f"{units.seconds(batch)} | {units.share(max(cost, 0) / batch)} | "
            f"{statistics.median(shares):.2%} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
