"""Why this machine's figures differ from the published ones, computed from the result's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import published_figures as figures
import published_loaders as loaders

from feedrate import units
from feedrate.analysis.conditions import Condition
from feedrate.analysis.summary import Point
from feedrate.experiments.published import BATCH_SIZE, REPEATED, SWEEP
from feedrate.records import Metadata, Suite

PUBLISHED_CPUS = 28
"""As the published host's description says: 8 cores with 2 threads each and 12 with one."""


def explain(suite: Suite, published: figures.Published) -> Iterator[str]:
    """Yield one line for each thing that differs, with the figures behind it."""
    measured = loaders.torchs(suite)
    yield from _cpus(suite.metadata, measured)
    for condition in measured:
        yield from _waiting(condition)
        yield from _cpu_ceiling(condition)
    yield _accelerator(suite)
    yield from _drift(measured, published)
    yield from _data(suite, published)
    if suite.metadata.torch_version != published.host.torch:
        yield (
            f"**torch.** {suite.metadata.torch_version or 'an unknown version'} here, "
            f"{published.host.torch} there."
        )


def _cpus(host: Metadata, measured: tuple[Condition, ...]) -> Iterator[str]:
    counts = [point.workers for condition in measured for point in condition.curve]
    if not counts:
        return
    usable = host.usable_cpus
    line = (
        f"**CPUs.** {units.number(usable)} usable here, {PUBLISHED_CPUS} there. The published "
        "gains up to 8 and 12 workers need as many CPUs: this machine has "
        f"{'too few' if usable < 12 else 'enough'}."
    )
    if max(counts) > usable:
        line += (
            f" The {max(counts)} workers of the sweep are {units.ratio(max(counts) / usable)} the "
            f"usable CPUs here, {units.ratio(max(counts) / PUBLISHED_CPUS)} there; beyond "
            f"{units.number(usable)} workers they take turns."
        )
    yield line


def _waiting(condition: Condition) -> Iterator[str]:
    """What any loader could gain: the loop's own time with 0 workers is the ceiling."""
    alone = next((point for point in condition.curve if point.workers == 0), None)
    if alone is None or alone.wait_share is None:
        return
    share = alone.wait_share.median
    line = (
        f"**{condition.name.capitalize()}: what loading costs.** With 0 workers the loop waits for "
        f"data {units.share(share)} of the time"
    )
    if share < 1:
        line += (
            f", so a loader that cost nothing would be at most {units.ratio(1 / (1 - share))} as "
            "fast, if the step kept its pace"
        )
    yield f"{line}."


def _cpu_ceiling(condition: Condition) -> Iterator[str]:
    """How much of the CPUs the fastest count uses: a figure near 1 leaves nothing to gain."""
    if not condition.curve:
        return
    best = max(condition.curve, key=_rate)
    if best.cpu_per_batch is None or best.rates is None:
        return
    usable = condition.metadata.usable_cpus
    cost = best.cpu_per_batch.median
    ceiling = BATCH_SIZE * usable / cost
    yield (
        f"**{condition.name.capitalize()}: the CPUs' ceiling.** At its fastest, with "
        f"{best.workers} workers, a batch costs {units.seconds(cost)} of CPU time in the main "
        f"process and the workers together, so {units.number(usable)} CPUs cannot pass "
        f"{units.rate(ceiling)} images/s; measured are {units.rate(_rate(best))}, "
        f"{units.share(_rate(best) / ceiling)} of that."
    )


def _accelerator(suite: Suite) -> str:
    there = "on the published machine a GPU takes it"
    name = suite.metadata.accelerator
    if name is None or suite.procedure.device == "cpu":
        return (
            "**The step.** It computes on one of the CPUs that the workers use, and competes with "
            f"them; {there}."
        )
    return f"**The step.** It runs on {name} here; {there}."


class _Drift(NamedTuple):
    """The rate of a count's repeats over that of the same count in the single sweep."""

    ratio: float
    workers: int
    condition: str


def _drift(measured: tuple[Condition, ...], published: figures.Published) -> Iterator[str]:
    """How far two series of the same count lie apart: what the machine changed between them."""
    there = [
        _Drift(repeated.median / condition.sweep[count], count, name)
        for name, condition in published.conditions.items()
        for count, repeated in condition.repeated.items()
        if count in condition.sweep
    ]
    here = [
        _Drift(_rate(point) / _rate(single), point.workers, condition.name)
        for condition in measured
        for point in condition.points
        for single in condition.points
        if (point.benchmark.part, single.benchmark.part) == (REPEATED, SWEEP)
        and point.workers == single.workers
        and point.rates is not None
        and single.rates is not None
    ]
    words = [
        f"{units.ratio(most.ratio)} {where} ({most.condition}, {most.workers} workers)"
        for where, drifts in (("there", there), ("here", here))
        if (most := max(drifts, key=lambda drift: abs(drift.ratio - 1), default=None)) is not None
    ]
    if words:
        yield (
            "**Drift.** The repeats differ from the single sweep at the same count by up to "
            f"{' and '.join(words)}, so speed-ups are taken within the sweep only."
        )


def _data(suite: Suite, published: figures.Published) -> Iterator[str]:
    lengths = {
        run.facts.dataset_length
        for benchmark in suite.benchmarks
        for run in benchmark.runs
        if run.facts is not None and run.facts.dataset_length is not None
    }
    if "synthetic" in suite.metadata.target:
        yield (
            "**Data.** Synthetic images of the same size and type here: the work for each does not "
            "depend on what it shows."
        )
    if lengths and lengths != {published.images}:
        yield (
            f"**Epochs.** {', '.join(units.number(n) for n in sorted(lengths))} images here, "
            f"{units.number(published.images)} there: first epochs weigh the workers' start more."
        )


def _rate(point: Point) -> float:
    return point.rates.median if point.rates is not None else 0.0
