"""The meter: how long the loop waited for batches and how long its steps took."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_KEPT = 512


class Meter:
    """Two clock readings a batch. The step before an epoch's first batch is not one."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._asked = 0.0
        self._given: float | None = None
        self.batches = 0
        self.wait_seconds = 0.0
        self.step_seconds = 0.0
        self.waits: deque[float] = deque(maxlen=_KEPT)
        self.steps: deque[float] = deque(maxlen=_KEPT)

    def asked(self) -> float | None:
        """The loop asks for a batch; return the step before, ``None`` at an epoch's beginning."""
        self._asked = self._clock()
        if self._given is None:
            return None
        step = self._asked - self._given
        self.step_seconds += step
        self.steps.append(step)
        return step

    def given(self) -> float:
        """The loop gets it; return how long it waited."""
        self._given = self._clock()
        wait = self._given - self._asked
        self.batches += 1
        self.wait_seconds += wait
        self.waits.append(wait)
        return wait

    def pause(self) -> None:
        """An epoch has ended: what comes until the next batch is no step."""
        self._given = None
