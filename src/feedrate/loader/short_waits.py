"""Short waits are not slept through.

To go to sleep and be woken costs both sides more than a small batch does: the waker may be put
aside for the sleeper, and what could run side by side runs in turn. So where the last wait was
short, the next one begins with looking again and again, and giving the CPU to whoever needs it
between two looks. Where waits are long, as they are when batches cost something, nothing of this
happens.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LONGEST_SECONDS = 300e-6
_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: None)


class ShortWaits:
    """Remembers whether the last wait was short."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._short = True

    def wait(self, look: Callable[[], T | None], sleep: Callable[[], object]) -> T | None:
        """Wait for ``look`` to return something, or for ``sleep`` to return.

        Returns:
            What was seen before it came to sleeping; ``None`` after that.
        """
        start = self._clock()
        while self._short:
            _yield()
            if (seen := look()) is not None:
                return seen
            self._short = self._clock() - start < LONGEST_SECONDS
        sleep()
        self._short = self._clock() - start < LONGEST_SECONDS
        return None
