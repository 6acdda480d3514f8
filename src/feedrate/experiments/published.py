"""The published worker sweep as a plan: which benchmarks, in which parts. Nothing runs here.

Source of the protocol: benchmarks/reference/published_sweep.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from feedrate.records import Benchmark, Suite
from feedrate.settings import LoaderKind, LoaderSettings

LIGHT = "light"
AUGMENTED = "augmented"
CONDITIONS = (LIGHT, AUGMENTED)

SWEEP = "sweep"
REPEATED = "repeated"
PIN_MEMORY = "pin_memory"

BATCH_SIZE = 256
PREFETCH_FACTOR = 2
TOP_COUNTS = 3
"""How many worker counts near the top are measured again: the best and its neighbours."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The extent of one pass: what is swept, how often, and over how much of the data.

    ``images`` is how many of the 60,000, ``None`` for all. ``repeats`` holds for the repeated
    part, made for ``repeated_conditions``, and for pin_memory; the sweep itself is single, as
    published.
    """

    workers: tuple[int, ...]
    pin_workers: int
    epochs: int
    repeats: int
    repeated_conditions: tuple[str, ...]
    images: int | None


FULL = Protocol(
    workers=(0, 1, 2, 4, 8, 12, 16),
    pin_workers=4,
    epochs=2,
    repeats=5,
    repeated_conditions=CONDITIONS,
    images=None,
)
"""As published, and the repeats for both conditions, where *augmented* alone was published."""

QUICK = Protocol(
    workers=(0, 1, 2),
    pin_workers=2,
    epochs=2,
    repeats=2,
    repeated_conditions=(AUGMENTED,),
    images=6_400,
)
"""About two minutes on two cores: 16 children, 25 batches an epoch. Too few repeats to settle
a close question; it shows that everything works."""


Loaders = Sequence[LoaderKind]
"""Whose loaders are measured side by side; none named: torch's own, as published."""


def sweep_benchmarks(
    conditions: Sequence[str] = CONDITIONS,
    workers: Sequence[int] = FULL.workers,
    loaders: Loaders = (),
) -> tuple[Benchmark, ...]:
    """Return one benchmark for each condition, worker count and loader, in that order.

    So loaders take turns at each worker count, and a drift of the machine favours none of them.
    Without workers they are the same, and there is one benchmark for all.
    """
    return tuple(
        benchmark
        for condition in conditions
        for count in workers
        for benchmark in _of_loaders(condition, SWEEP, count, loaders)
    )


def repeated_benchmarks(
    condition: str, counts: Sequence[int], loaders: Loaders = ()
) -> tuple[Benchmark, ...]:
    """Return the benchmarks that are run several times in rotated order: `top_workers`' counts."""
    return tuple(
        benchmark
        for count in counts
        for benchmark in _of_loaders(condition, REPEATED, count, loaders)
    )


def top_workers(suite: Suite, condition: str, loaders: Loaders = ()) -> tuple[int, ...]:
    """Return the counts worth repeating: of each loader the fastest and its neighbours.

    In rising order; for each loader three, at the end of the sweep the three last (first) counts,
    and all of them where fewer were measured. By the median rate of later epochs.
    """
    counts = {count for loader in loaders or (None,) for count in _top(suite, condition, loader)}
    return tuple(sorted(counts))


def _top(suite: Suite, condition: str, loader: LoaderKind | None) -> tuple[int, ...]:
    from feedrate.analysis.summary import summarize  # SciPy: not for the child

    rates = {
        point.workers: point.rates.median
        for point in summarize(suite)
        if point.rates is not None
        and point.benchmark.condition == condition
        and point.benchmark.part == SWEEP
        and (point.workers == 0 or point.benchmark.settings.loader == loader)
    }
    counts = sorted(rates)
    if len(counts) <= TOP_COUNTS:
        return tuple(counts)
    fastest = max(range(len(counts)), key=lambda index: rates[counts[index]])
    start = min(max(fastest - 1, 0), len(counts) - TOP_COUNTS)
    return tuple(counts[start : start + TOP_COUNTS])


def pin_benchmarks(
    condition: str = AUGMENTED, workers: int = FULL.pin_workers, loaders: Loaders = ()
) -> tuple[Benchmark, ...]:
    """Return for each loader two benchmarks that differ in pin_memory alone, off before on."""
    return tuple(
        benchmark
        for pin in (False, True)
        for benchmark in _of_loaders(condition, PIN_MEMORY, workers, loaders, pin_memory=pin)
    )


def _of_loaders(
    condition: str, part: str, workers: int, loaders: Loaders, *, pin_memory: bool = True
) -> tuple[Benchmark, ...]:
    kinds = loaders if loaders and workers > 0 else (None,)
    made = (_benchmark(condition, part, workers, kind, pin_memory=pin_memory) for kind in kinds)
    if loaders and workers == 0:
        same = "loader: without workers they are the same"
        return tuple(msgspec.structs.replace(b, left_out=(*b.left_out, same)) for b in made)
    if len(kinds) < 2:
        return tuple(made)
    return tuple(
        msgspec.structs.replace(b, label=f"{b.label}, loader {b.settings.loader}") for b in made
    )


def _benchmark(
    condition: str, part: str, workers: int, loader: LoaderKind | None, *, pin_memory: bool
) -> Benchmark:
    label = f"{condition}, {workers} {'worker' if workers == 1 else 'workers'}"
    if part == PIN_MEMORY:
        label += f", pin_memory {'on' if pin_memory else 'off'}"
    if workers == 0:
        return Benchmark(
            label=label,
            condition=condition,
            part=part,
            settings=LoaderSettings(num_workers=0, pin_memory=pin_memory),
            left_out=(
                "prefetch_factor: there are no workers to prefetch",
                "persistent_workers: there are no workers to keep",
            ),
        )
    settings = LoaderSettings(
        num_workers=workers,
        prefetch_factor=PREFETCH_FACTOR,
        persistent_workers=True,
        pin_memory=pin_memory,
        loader=loader,
    )
    return Benchmark(label=label, condition=condition, part=part, settings=settings)
