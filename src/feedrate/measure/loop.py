"""The measured loop: what `for batch in loader: step(batch)` does, with a clock at each border.

One clock reading a border: the end of a step is the request for the next batch. The batch is
rebound as a for loop does it, so that the previous one lives as long as it would in the user's
own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from feedrate.measure.batch import Counter, item_counter
from feedrate.measure.blame import is_stray
from feedrate.records import Epoch

PROGRESS_SECONDS = 0.2
_DIGITS = 7

Clock = Callable[[], float]


def run_unmeasured(
    loader: Iterable[Any], step: Callable[[Any], object] | None, max_batches: int | None = None
) -> None:
    """Iterate the loader once, watched by others; errors pass through."""
    for number, batch in enumerate(loader, 1):
        if step is not None:
            step(batch)
        if number == max_batches:
            break


def run_epoch(
    loader: Iterable[Any],
    step: Callable[[Any], object] | None,
    *,
    clock: Clock,
    synchronize: Callable[[], None],
    on_progress: Callable[[int], None],
    on_first: Callable[[Any], None] | None = None,
    max_batches: int | None = None,
) -> Epoch:
    """Iterate the loader once and return what it took, without CPU seconds.

    Args:
        loader: anything that can be iterated.
        step: called with every batch; its time is the step's.
        clock: returns seconds; it never goes back.
        synchronize: waits for the accelerator; called once, at the end.
        on_progress: called with the number of batches so far at the first batch, and then at
            most every fifth of a second. Its time counts as step.
        on_first: called with the first batch, outside every measured time.
        max_batches: end after so many.

    Errors of the loader, the dataset or the step pass through, a StopIteration that is not the
    loader's own end too.
    """
    waits: list[float] = []
    steps: list[float] = []
    items = 0
    count: Counter | None = None
    complete = True
    started = clock()
    iterator = iter(loader)
    asked = begun = clock()
    reported = -math.inf
    while True:
        try:
            batch = next(iterator)
        except StopIteration as end:
            if is_stray(end):
                raise
            break
        got = clock()
        waits.append(got - asked)
        if count is None:
            count = item_counter(batch, loader)
            if on_first is not None:
                on_first(batch)
            got = clock()
        items += count(batch)
        if step is not None:
            step(batch)
        if got - reported >= PROGRESS_SECONDS:
            on_progress(len(waits))
            reported = got
        asked = clock()
        steps.append(asked - got)
        if len(waits) == max_batches:
            complete = False
            break
    synchronize()
    ended = clock()
    return make_epoch(
        begin=begun - started,
        end=ended - asked,
        waits=waits,
        steps=steps,
        items=items,
        complete=complete,
    )


def make_epoch(
    *,
    begin: float,
    end: float,
    waits: list[float],
    steps: list[float],
    items: int,
    complete: bool,
) -> Epoch:
    """Build the record, with times rounded to a tenth of a microsecond and sums that fit."""
    batch_waits = tuple(round(wait, _DIGITS) for wait in waits)
    batch_steps = tuple(round(step, _DIGITS) for step in steps)
    begin = round(begin, _DIGITS)
    end = round(end, _DIGITS)
    wait_seconds = begin + sum(batch_waits) + end
    step_seconds = sum(batch_steps)
    return Epoch(
        seconds=round(wait_seconds + step_seconds, _DIGITS),
        items=items,
        batches=len(batch_waits),
        wait_seconds=round(wait_seconds, _DIGITS),
        step_seconds=round(step_seconds, _DIGITS),
        begin_seconds=begin,
        end_seconds=end,
        batch_waits=batch_waits,
        batch_steps=batch_steps,
        complete=complete,
    )
