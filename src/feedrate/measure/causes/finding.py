"""The pass over a factory's loader: its loop, epoch after epoch, until the causes are told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from feedrate.measure.causes.in_worker import probe_worker
from feedrate.measure.causes.inspection import Inspection
from feedrate.measure.causes.inspector import MORE_SECONDS, Inspector

_END_SECONDS = 5.0
"""How long after the looks a worker may take to tell."""
_MAIN = "main"


def find_causes(
    loader: Any,
    step: Callable[[Any], object] | None = None,
    *,
    process: str = _MAIN,
    seconds: float = 10.0,
    expected: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Inspection:
    """Iterate a loader and return what grows in one process, and what holds it.

    Args:
        loader: torch's, or anything that is iterated in this process. A worker is inspected from
            its start, so one whose workers run already (persistent_workers) is of no use.
        step: called with every batch.
        process: "main", or "worker 0" by its number.
        seconds: how long the looks may take; some seconds come on top for the end.
        expected: by how many bytes the process was seen to grow with each of its items.

    Errors of the loader and the step pass through.
    """
    if process == _MAIN:
        return _in_main(loader, step, seconds, expected, clock)
    number = int(process.removeprefix("worker "))
    with probe_worker(
        loader,
        worker=number,
        seconds=seconds,
        epoch_items=worker_items(loader),
        expected=expected,
    ) as probe:
        end = math.inf
        while not probe.is_over and clock() < end:
            batches = 0
            for batch in loader:
                batches += 1
                if step is not None:
                    step(batch)
                now = clock()
                end = min(end, now + longest(seconds))
                if now >= end or probe.is_over:
                    break
            if not batches:
                break
        return probe.inspection()


def longest(seconds: float) -> float:
    """Return how long it takes at most until a worker has told what it saw in so many seconds."""
    return seconds + MORE_SECONDS + _END_SECONDS


def worker_items(loader: Any) -> float | None:
    """Return how many items an epoch brings to one worker, ``None`` where that is not known."""
    try:
        items = float(len(loader.dataset))
        if loader.sampler is not None:
            items = float(len(loader.sampler))
    except (TypeError, AttributeError, NotImplementedError):
        return None
    return items / max(1, int(loader.num_workers))


def _in_main(
    loader: Any,
    step: Callable[[Any], object] | None,
    seconds: float,
    expected: float | None,
    clock: Callable[[], float],
) -> Inspection:
    named = {"dataset": loader.dataset} if hasattr(loader, "dataset") else {}
    inspector = Inspector(_MAIN, seconds, named=named, expected=expected, clock=clock)
    try:
        while not inspector.is_over and _epoch(loader, step, inspector):
            pass
    finally:
        inspector.close()
    return inspector.inspection


def _epoch(loader: Any, step: Callable[[Any], object] | None, inspector: Inspector) -> bool:
    """Iterate once, or until the inspector is done; tell whether there was anything."""
    from feedrate.measure.batch import item_counter

    count = None
    for batch in loader:
        if step is not None:
            step(batch)
        if count is None:
            count = item_counter(batch, loader)
        inspector.passed(count(batch))
        if inspector.is_over:
            return True
    inspector.epoch_ended()
    return count is not None
