"""Figures of one run: rates, shares and times, each ``None`` where the run does not tell."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

import msgspec

from feedrate.records import Epoch, Run


class EpochTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole epoch takes, in seconds: the first one, and each later one.

    ``later`` is ``None`` where only one epoch was measured. ``extrapolated`` says that epochs were
    cut short by ``max_batches`` and the batches left out were added at the pace of the others.
    """

    cold: float
    later: float | None
    extrapolated: bool


def succeeded(run: Run) -> bool:
    """Say whether the run has all its figures: no error, and at least one epoch."""
    return run.error is None and bool(run.epochs)


def later_epochs(run: Run) -> tuple[Epoch, ...]:
    """Return the epochs after the first."""
    return run.epochs[1:]


def settled_epochs(run: Run) -> tuple[Epoch, ...]:
    """Return the later epochs, or the first where there is no other."""
    return later_epochs(run) or run.epochs


def rate(epochs: Sequence[Epoch]) -> float | None:
    """Return the items/s over all of ``epochs``; ``None`` without items or time."""
    items = sum(epoch.items for epoch in epochs)
    seconds = sum(epoch.seconds for epoch in epochs)
    return items / seconds if items > 0 and seconds > 0 else None


def wait_share(epochs: Sequence[Epoch]) -> float | None:
    """Return the share of the time that the loop was blocked, from 0 to 1.

    Near 0 the loader keeps up and faster loading gains nothing; near 1 the loop does nothing but
    wait for data.
    """
    seconds = sum(epoch.seconds for epoch in epochs)
    return sum(epoch.wait_seconds for epoch in epochs) / seconds if seconds > 0 else None


def step_seconds(epochs: Sequence[Epoch]) -> float | None:
    """Return the median step in seconds."""
    steps = [step for epoch in epochs for step in epoch.batch_steps]
    return median(steps) if steps else None


def cpu_per_batch(epochs: Sequence[Epoch], *, with_workers: bool) -> float | None:
    """Return the CPU seconds for one batch, of the main process and all workers together.

    ``None`` where one of them is not known: half of the figure would mislead.
    """
    total = 0.0
    for epoch in epochs:
        if epoch.main_cpu_seconds is None or (with_workers and epoch.worker_cpu_seconds is None):
            return None
        total += epoch.main_cpu_seconds + (epoch.worker_cpu_seconds or 0.0)
    batches = sum(epoch.batches for epoch in epochs)
    return total / batches if batches else None


def cpu_per_item(run: Run, *, with_workers: bool) -> tuple[float, float] | None:
    """Return the CPU seconds for an item of the main process, and of all workers together.

    In settled epochs; ``None`` where one of the two is not known.
    """
    main = in_workers = 0.0
    epochs = settled_epochs(run)
    for epoch in epochs:
        if epoch.main_cpu_seconds is None or (with_workers and epoch.worker_cpu_seconds is None):
            return None
        main += epoch.main_cpu_seconds
        in_workers += (epoch.worker_cpu_seconds or 0.0) if with_workers else 0.0
    items = sum(epoch.items for epoch in epochs)
    return (main / items, in_workers / items) if items else None


def mean_seconds(epochs: Sequence[Epoch]) -> float | None:
    """Return the mean seconds of an epoch."""
    return sum(epoch.seconds for epoch in epochs) / len(epochs) if epochs else None


def first_batch_seconds(epoch: Epoch) -> float:
    """Return the time from ``iter()`` to the epoch's first batch; all of it if none came."""
    return epoch.begin_seconds + (epoch.batch_waits[0] if epoch.batches else epoch.end_seconds)


def epoch_times(run: Run) -> EpochTimes | None:
    """Return what whole epochs of this run take; ``None`` if it failed.

    An epoch that ``max_batches`` cut short is completed to the length that the loader announces,
    at the pace after the first batch of the settled epochs, because workers that start take no
    longer for a longer epoch. Where no length is announced the epochs stay as measured.
    """
    if not succeeded(run):
        return None
    pace = _seconds_per_batch(settled_epochs(run))
    length = run.facts.length if run.facts is not None else None

    def whole(epoch: Epoch) -> float:
        missing = 0 if epoch.complete or length is None else max(0, length - epoch.batches)
        return epoch.seconds + missing * pace

    cold, *later = (whole(epoch) for epoch in run.epochs)
    measured = sum(epoch.seconds for epoch in run.epochs)
    return EpochTimes(
        cold=cold,
        later=sum(later) / len(later) if later else None,
        extrapolated=cold + sum(later) > measured,
    )


def _seconds_per_batch(epochs: Sequence[Epoch]) -> float:
    waits = [wait for epoch in epochs for wait in epoch.batch_waits[1:]]
    steps = [step for epoch in epochs for step in epoch.batch_steps]
    if not waits:
        return mean_seconds(epochs) or 0.0
    # Where an accelerator works behind the loop, its backlog is waited for at the end.
    backlog = sum(epoch.end_seconds for epoch in epochs if not epoch.complete)
    return mean(waits) + mean(steps) + backlog / len(steps)
