"""Small builders of records, so that a test names only what it is about.

The figures are made up and round; `make_suite(rates={...})` is the usual way in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from feedrate.memory_records import MemoryReading, MemorySnapshot
from feedrate.records import (
    Benchmark,
    Epoch,
    LoaderFacts,
    Metadata,
    Peaks,
    Procedure,
    Run,
    RunError,
    Suite,
)
from feedrate.settings import LoaderSettings

MIB = 2**20
ITEMS = 1280
BATCHES = 20


def make_metadata(**changes: Any) -> Metadata:
    fields: dict[str, Any] = {
        "feedrate_version": "0.1.0",
        "python_version": "3.11.9",
        "os": "Linux 6.1",
        "cpu": "Example CPU",
        "logical_cpus": 4,
        "usable_cpus": 2.0,
        "usable_cpus_from": "affinity",
        "ram_bytes": 8 * 2**30,
        "memory_limit_bytes": None,
        "shm_bytes": 2**30,
        "target": "train.py:make_loader",
        "argv": ("feedrate", "bench", "train.py:make_loader"),
        "seed": 0,
        "started_at": "2025-01-02T03:04:05+00:00",
        "torch_version": "2.6.0",
        "default_start_method": "fork",
    }
    return Metadata(**(fields | changes))


def make_procedure(**changes: Any) -> Procedure:
    fields: dict[str, Any] = {"epochs": 2, "repeats": 5}
    return Procedure(**(fields | changes))


def make_facts(num_workers: int = 2, **changes: Any) -> LoaderFacts:
    fields: dict[str, Any] = {
        "loader_type": "torch.utils.data.dataloader.DataLoader",
        "dataset_type": "train.Photographs",
        "dataset_length": ITEMS,
        "iterable": False,
        "length": BATCHES,
        "batch_size": ITEMS // BATCHES,
        "num_workers": num_workers,
        "prefetch_factor": 2 if num_workers else None,
        "pin_memory": False,
        "persistent_workers": num_workers > 0,
        "start_method": "fork" if num_workers else None,
        "has_step": True,
        "batch_bytes": 4 * MIB,
        "batch_tensors": 2,
    }
    return LoaderFacts(**(fields | changes))


def make_epoch(
    *,
    seconds: float = 1.0,
    items: int = ITEMS,
    batches: int = BATCHES,
    wait_share: float = 0.25,
    begin_seconds: float = 0.0,
    end_seconds: float = 0.0,
    complete: bool = True,
    main_cpu_seconds: float | None = 0.2,
    worker_cpu_seconds: float | None = 0.6,
) -> Epoch:
    """Return an epoch of equal batches that waits ``wait_share`` of its seconds.

    ``begin_seconds`` and ``end_seconds`` are part of the waiting.
    """
    wait = seconds * wait_share if batches else seconds
    if not batches:
        end_seconds = seconds - begin_seconds
    waits = (wait - begin_seconds - end_seconds) / batches if batches else 0.0
    steps = (seconds - wait) / batches if batches else 0.0
    return Epoch(
        seconds=seconds,
        items=items,
        batches=batches,
        wait_seconds=wait,
        step_seconds=seconds - wait,
        begin_seconds=begin_seconds,
        end_seconds=end_seconds,
        batch_waits=(waits,) * batches,
        batch_steps=(steps,) * batches,
        complete=complete,
        main_cpu_seconds=main_cpu_seconds,
        worker_cpu_seconds=worker_cpu_seconds,
    )


def make_peaks(workers: int = 2, **changes: Any) -> Peaks:
    fields: dict[str, Any] = {
        "memory_kind": "pss",
        "main_bytes": 300 * MIB,
        "worker_bytes": 50 * MIB * workers,
        "total_bytes": (300 + 50 * workers) * MIB,
        "workers": workers,
        "shm_bytes": 8 * MIB * workers,
        "main_descriptors": 20,
        "worker_descriptors": 10 * workers,
    }
    return Peaks(**(fields | changes))


def make_snapshot(at: float = 0.5, workers: int = 2) -> MemorySnapshot:
    main = MemoryReading(rss=320 * MIB, pss=300 * MIB, uss=280 * MIB)
    each = 50 * MIB * workers
    return MemorySnapshot(
        at=at,
        main=main,
        workers=MemoryReading(rss=4 * each, pss=each, uss=each) if workers else None,
        worker_count=workers,
        shm_bytes=8 * MIB * workers,
        main_descriptors=20,
        worker_descriptors=10 * workers,
    )


def make_run(
    rate: float = ITEMS,
    *,
    cold_rate: float | None = None,
    later_epochs: int = 1,
    items: int = ITEMS,
    wait_share: float = 0.25,
    num_workers: int = 2,
    position: int = 0,
    repeat: int = 0,
    **changes: Any,
) -> Run:
    """Return a run whose later epochs have ``rate`` items/s and whose first has ``cold_rate``.

    ``cold_rate`` is four fifths of ``rate`` unless given. ``changes`` replace fields of the run.
    """
    first = make_epoch(
        seconds=items / (0.8 * rate if cold_rate is None else cold_rate),
        items=items,
        wait_share=wait_share,
    )
    later = make_epoch(seconds=items / rate, items=items, wait_share=wait_share)
    fields: dict[str, Any] = {
        "position": position,
        "repeat": repeat,
        "setup_seconds": 0.4,
        "startup_seconds": 0.05 + 0.05 * num_workers,
        "seconds": 2.0 + first.seconds + later_epochs * later.seconds,
        "other_cpu_seconds": 0.01,
        "facts": make_facts(num_workers),
        "epochs": (first, *(later,) * later_epochs),
        "memory": (make_snapshot(workers=num_workers),),
        "peaks": make_peaks(num_workers),
    }
    return Run(**(fields | changes))


def make_failed_run(
    sentence: str = "The dataset raised ValueError: no such file.",
    *,
    kind: str = "exception",
    position: int = 0,
    repeat: int = 0,
    **changes: Any,
) -> Run:
    error = RunError(
        kind=kind, sentence=sentence, traceback="Traceback …\nValueError: no such file"
    )  # type: ignore[arg-type]
    return Run(position=position, repeat=repeat, error=error, **changes)


def make_benchmark(
    num_workers: int = 2,
    rates: Sequence[float] = (),
    *,
    runs: Iterable[Run] | None = None,
    condition: str = "",
    part: str = "sweep",
    label: str | None = None,
    skipped: str | None = None,
    left_out: tuple[str, ...] = (),
    run_fields: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Benchmark:
    """Return a benchmark with one run for each of ``rates``, or with ``runs`` as they are.

    ``run_fields`` go to `make_run`, ``settings`` to `LoaderSettings`.
    """
    if runs is None:
        given: dict[str, Any] = {"num_workers": num_workers} | dict(run_fields or {})
        runs = [make_run(rate, repeat=k, **given) for k, rate in enumerate(rates)]
    return Benchmark(
        label=label
        if label is not None
        else f"{num_workers} worker{'' if num_workers == 1 else 's'}",
        settings=LoaderSettings(num_workers=num_workers, **settings),
        condition=condition,
        part=part,
        runs=tuple(runs),
        skipped=skipped,
        left_out=left_out,
    )


def rotated(benchmarks: Sequence[Benchmark]) -> tuple[Benchmark, ...]:
    """Give every run its position: repeat k starts at benchmark k and goes round."""
    positions: dict[tuple[int, int], int] = {}
    for repeat in range(max((len(b.runs) for b in benchmarks), default=0)):
        for step in range(len(benchmarks)):
            index = (repeat + step) % len(benchmarks)
            if repeat < len(benchmarks[index].runs):
                positions[index, repeat] = len(positions)
    return tuple(
        msgspec.structs.replace(
            benchmark,
            runs=tuple(
                msgspec.structs.replace(run, position=positions[index, k], repeat=k)
                for k, run in enumerate(benchmark.runs)
            ),
        )
        for index, benchmark in enumerate(benchmarks)
    )


def make_suite(
    benchmarks: Iterable[Benchmark] | None = None,
    *,
    rates: Mapping[int, Sequence[float]] | None = None,
    metadata: Metadata | None = None,
    procedure: Procedure | None = None,
    **changes: Any,
) -> Suite:
    """Return a suite of ``benchmarks``, or of one benchmark for each worker count in ``rates``.

    Runs get their positions in rotated order. With neither argument it is a plain sweep of
    0, 1, 2 and 4 workers, three runs each, whose plateau starts at 2.
    """
    if benchmarks is None:
        shape = (0.99, 1.0, 1.01)
        rates = rates or {
            count: [rate * factor for factor in shape]
            for count, rate in {0: 500.0, 1: 450.0, 2: 880.0, 4: 890.0}.items()
        }
        benchmarks = [make_benchmark(count, values) for count, values in rates.items()]
    made = rotated(tuple(benchmarks))
    repeats = max((len(b.runs) for b in made), default=0) or 1
    return Suite(
        metadata=metadata or make_metadata(),
        procedure=procedure or make_procedure(repeats=repeats),
        benchmarks=made,
        **changes,
    )
