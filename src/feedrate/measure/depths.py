"""How deep looks go: what processes have allocated, the pages of one worker, those of all.

What a process has allocated is a counter. Which of its pages it shares shows only where the kernel
goes through all of them, some milliseconds for each process: so it is asked of one forked worker at
the ends of a loader's first pass, for what workers copy shows between two looks at the same one,
and after that as seldom as the time allows.
"""

from __future__ import annotations

from typing import Literal

from feedrate.measure import wire

Depth = Literal["counters", "worker", "whole"]

_SHARES: dict[Depth, float] = {"worker": 0.3, "whole": 0.35}
"""The shares, of the time that looks may take, for those that go deeper than counters."""
_WHOLE_SECONDS = 0.03
"""What a whole look is taken to cost before there was one."""


class Depths:
    """Decides how deep each look goes.

    Both ends of a pass alike, but deeper by chance of time in between: what workers copy shows
    between two of them.

    Args:
        duty: the share of the time that looks may take in all.
    """

    def __init__(self, duty: float) -> None:
        self._duty = duty
        self._spent: dict[Depth, float] = {"counters": 0.0, "worker": 0.0, "whole": 0.0}
        self._cost: dict[Depth, float] = {"worker": 0.0, "whole": _WHOLE_SECONDS}
        self._passes: dict[tuple[int, int], Depth] = {}

    def due(self, mark: wire.Mark, elapsed: float) -> Depth:
        """Return how deep the look at a mark is to go, so many seconds after the first."""
        key = (mark.loader, mark.epoch)
        if key not in self._passes:
            is_first = all(loader != mark.loader for loader, _ in self._passes)
            self._passes[key] = self._first(mark) if is_first else self._affordable(mark, elapsed)
        depth = self._passes[key]
        is_border = mark.batches == 1 or mark.is_end
        if is_border or depth == "counters" or self._fits(depth, elapsed, 1):
            return depth
        return "counters"

    def took(self, depth: Depth, seconds: float) -> None:
        """Take note of what a look of some depth took."""
        self._spent[depth] += seconds
        self._cost[depth] = seconds

    @staticmethod
    def _first(mark: wire.Mark) -> Depth:
        """Return how deep a loader's first pass is looked into at its ends.

        Workers that were not forked share no page that they could copy.
        """
        return "worker" if mark.forked else "counters"

    def _affordable(self, mark: wire.Mark, elapsed: float) -> Depth:
        if self._fits("whole", elapsed, 2):
            return "whole"
        return "worker" if mark.forked and self._fits("worker", elapsed, 2) else "counters"

    def _fits(self, depth: Depth, elapsed: float, times: int) -> bool:
        limit = _SHARES[depth] * self._duty * elapsed
        return self._spent[depth] + times * self._cost[depth] <= limit
