"""Suites in which torch's loader and feedrate's were measured in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builders import BATCHES, make_benchmark, make_epoch, make_facts, make_metadata, make_suite
from feedrate.records import Benchmark, Run, Suite

Rates = Mapping[int, Sequence[float]]

# so far apart that a figure that mixes the two would be seen
TORCHS: Rates = {1: (100.0,), 2: (180.0,), 4: (185.0,)}
OURS: Rates = {1: (150.0,), 2: (240.0,), 4: (300.0,)}
ALONE = (90.0,)
ITEMS = 1280


def run_of(rate: float, workers: int, loader: str | None, repeat: int, **changes: Any) -> Run:
    """Return a run with two equal epochs; ``changes`` go to `make_epoch`."""
    epoch = make_epoch(seconds=ITEMS / rate, items=ITEMS, batches=BATCHES, **changes)
    facts = make_facts(workers, loader=loader)
    return Run(position=0, repeat=repeat, startup_seconds=0.1, facts=facts, epochs=(epoch, epoch))


def side(
    rates: Rates, loader: str, *, condition: str = "light", part: str = "sweep", **changes: Any
) -> list[Benchmark]:
    """Return the benchmarks of one loader."""
    return [
        make_benchmark(
            count,
            runs=[run_of(rate, count, loader, k, **changes) for k, rate in enumerate(values)],
            condition=condition,
            part=part,
            label=f"{condition}, {count} workers, loader {loader}",
            loader=loader,
        )
        for count, values in rates.items()
    ]


def alone(rates: Sequence[float] = ALONE, condition: str = "light", **changes: Any) -> Benchmark:
    """Return the benchmark without workers, which both have."""
    runs = [run_of(rate, 0, None, repeat, **changes) for repeat, rate in enumerate(rates)]
    return make_benchmark(0, runs=runs, condition=condition, label=f"{condition}, 0 workers")


def two_loaders(torchs: Rates = TORCHS, ours: Rates = OURS, **metadata: Any) -> Suite:
    """Return a sweep of both, in turn at each worker count."""
    each = zip(side(torchs, "torch"), side(ours, "feedrate"), strict=True)
    benchmarks = [alone(), *(benchmark for both in each for benchmark in both)]
    return make_suite(
        benchmarks, metadata=make_metadata(**({"target": "fashion-mnist"} | metadata))
    )
