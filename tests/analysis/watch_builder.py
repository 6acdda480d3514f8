"""A `MemoryWatch` as a child would record it, from functions of the time in epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from feedrate.memory_records import (
    DeviceReading,
    MemoryLook,
    MemoryReading,
    MemoryRoom,
    MemoryWatch,
    ProcessReading,
)

MIB = 2**20
GIB = 2**30
MAIN = 100

Over = float | Callable[[float], float]
"""Bytes, or a count, at a time in epochs: 2.5 is the middle of the third. Or at any time."""


def rising(per_epoch: float, start: float = 0.0) -> Callable[[float], float]:
    return lambda time: start + per_epoch * time


def make_watch(
    *,
    epochs: int = 12,
    phases: int = 9,
    items: int = 1000,
    workers: int = 2,
    persistent: bool = True,
    main: Over = 300 * MIB,
    worker: Over = 100 * MIB,
    copied: Over = 0,
    inherited: float = 300 * MIB,
    kept_batches: Over = 0,
    main_descriptors: Over = 40,
    worker_descriptors: Over = 20,
    main_threads: Over = 9,
    worker_threads: Over = 2,
    worker_count: Callable[[int], int] | None = None,
    shm: Over = 0,
    device: Callable[[float], DeviceReading | None] = lambda time: None,
    mapped: Over = 0,
    page_cache: Over = 0,
    room: MemoryRoom | None = None,
    epoch_seconds: float = 60.0,
    **options: Any,
) -> MemoryWatch:
    """Return a watch whose looks are at equal phases of each epoch.

    With ``persistent=False`` a worker's figures are functions of the time since its epoch began.
    """
    looks = []
    for epoch in range(epochs):
        count = workers if worker_count is None else worker_count(epoch)
        for step in range(phases + 1):
            phase = step / phases
            time = epoch + phase
            life = time if persistent else phase
            looks.append(
                MemoryLook(
                    at=time * epoch_seconds,
                    epoch=epoch,
                    phase=phase,
                    items=round(items * time),
                    main=_process(
                        MAIN, at(main, time), 0, 0, at(mapped, time), at(kept_batches, time),
                        at(main_descriptors, time), at(main_threads, time),
                    ),
                    workers=tuple(
                        _process(
                            MAIN + 1 + number + (0 if persistent else 100 * epoch),
                            at(worker, life), at(copied, life), inherited - at(copied, life), 0, 0,
                            at(worker_descriptors, life), at(worker_threads, life),
                        )
                        for number in range(count)
                    ),
                    shm_bytes=round(at(shm, time)),
                    device=device(time),
                    page_cache=round(at(page_cache, time)),
                    available=8 * GIB,
                )
            )  # fmt: skip
    made = MemoryWatch(
        looks=tuple(looks),
        complete_epochs=epochs,
        num_workers=workers,
        start_method="fork" if workers else None,
        persistent_workers=persistent,
        room=room or MemoryRoom(memory=8 * GIB, main_descriptors=1024, worker_descriptors=1024),
        seconds=epochs * epoch_seconds,
    )
    return msgspec.structs.replace(made, **options)


def at(figure: Over, time: float) -> float:
    return figure(time) if callable(figure) else figure


def _process(
    pid: int,
    own: float,
    copied: float,
    inherited: float,
    mapped: float,
    shared_memory: float,
    descriptors: float,
    threads: float,
) -> ProcessReading:
    """``own`` bytes were allocated by the process, ``copied`` of the inherited ones are its own."""
    private = round(own + copied)
    return ProcessReading(
        pid=pid,
        memory=MemoryReading(
            rss=round(private + inherited + mapped + shared_memory),
            pss=round(private + inherited / 3 + mapped / 3 + shared_memory),
            uss=private,
            anonymous=round(own + copied + inherited),
            private_dirty=private,
            shared_dirty=round(inherited),
            pss_file=round(mapped / 3),
            pss_shmem=round(shared_memory),
        ),
        descriptors=round(descriptors),
        threads=round(threads),
    )
