"""Which settings a sweep tries, and in which order."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec

from feedrate.records import Benchmark
from feedrate.settings import LoaderSettings, StartMethod

MOST_LEVELS = 9

_NEEDS_WORKERS = {
    "prefetch_factor": "there are no workers to prefetch",
    "persistent_workers": "there are no workers to keep",
    "start_method": "there are no workers to start",
}


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The values to try of each setting. An empty axis means: as the target has it.

    Raises:
        ValueError: there is no worker count.
    """

    workers: tuple[int, ...]
    prefetch_factor: tuple[int, ...] = ()
    pin_memory: tuple[bool, ...] = ()
    persistent_workers: tuple[bool, ...] = ()
    start_method: tuple[StartMethod, ...] = ()
    batch_size: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.workers:
            raise ValueError("a sweep needs at least one worker count")


def default_workers(cpus: float) -> tuple[int, ...]:
    """Return the worker counts to try on so many usable CPUs, ascending.

    They double up to the CPUs, where a dataset that computes stops gaining, and go on half as
    dense to twice the CPUs, for one that waits for storage gains beyond. At most `MOST_LEVELS`:
    on a large machine every second small count is left out.
    """
    whole = max(1, math.floor(cpus))
    most = max(1, math.floor(2 * cpus))
    doubling = [2**power for power in range(whole.bit_length())]
    levels = {0, *doubling, whole, most}
    if most > 2:
        levels.add(2)
    if whole >= 4:
        levels.add(whole + (most - whole) // 2)
    for dispensable in doubling[1::2]:
        if len(levels) > MOST_LEVELS and dispensable != whole:
            levels.remove(dispensable)
    return tuple(sorted(levels))


def grid(axes: Axes) -> tuple[Benchmark, ...]:
    """Return one benchmark, without runs, for each combination that can be, fewest workers first.

    With 0 workers some settings cannot be: they are left out of the settings and named in
    ``left_out``, and combinations that differ in nothing else become one. The order is that of the
    axes otherwise; the fewest workers come first so that what more of them need can be predicted
    from what was measured.
    """
    others = {
        "prefetch_factor": axes.prefetch_factor,
        "pin_memory": axes.pin_memory,
        "persistent_workers": axes.persistent_workers,
        "start_method": axes.start_method,
        "batch_size": axes.batch_size,
    }
    named = {name: values for name, values in others.items() if values}
    varying = tuple(name for name, values in named.items() if len(set(values)) > 1)
    benchmarks: dict[LoaderSettings, Benchmark] = {}
    for workers in sorted(axes.workers):
        for values in itertools.product(*named.values()):
            benchmark = _benchmark(workers, dict(zip(named, values, strict=True)), varying)
            benchmarks.setdefault(benchmark.settings, benchmark)
    return tuple(benchmarks.values())


def rotated(count: int, repeats: int) -> tuple[tuple[int, int], ...]:
    """Return (repeat, index) of every run: each round starts one setting later than the last.

    So a drift of the machine meets all settings alike.
    """
    return tuple(
        (repeat, (repeat + offset) % count) for repeat in range(repeats) for offset in range(count)
    )


def _benchmark(workers: int, chosen: dict[str, Any], varying: tuple[str, ...]) -> Benchmark:
    left_out: tuple[str, ...] = ()
    if workers == 0:
        left_out = tuple(
            f"{name}: {_NEEDS_WORKERS[name]}" for name in chosen if name in _NEEDS_WORKERS
        )
        chosen = {name: value for name, value in chosen.items() if name not in _NEEDS_WORKERS}
    return Benchmark(
        label=_label(workers, {name: chosen[name] for name in varying if name in chosen}),
        settings=LoaderSettings(num_workers=workers, **chosen),
        left_out=left_out,
    )


def _label(workers: int, varying: dict[str, Any]) -> str:
    """Return its workers and whatever else varies, as "4 workers · pin_memory on"."""
    parts = [f"{workers} worker{'' if workers == 1 else 's'}"]
    for name, value in varying.items():
        shown = ("off", "on")[value] if isinstance(value, bool) else value
        parts.append(f"{name} {shown}")
    return " · ".join(parts)
