"""How many workers, and how much prefetching: decided window by window. Pure.

The rule is that of a sweep's plateau: the fewest workers whose rate is within the tolerance of the
best rate seen. Which counts are tried follows from the feeding roofline: with one worker the loop
takes l seconds to be fed a batch, which costs c CPU seconds in all processes together; on C CPUs
and with a step of s seconds more than N* = l × min(C ÷ c, 1 ÷ s) workers have nothing to add. The
controller measures there, then above while the loop still waits, then below.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import Literal

from feedrate.loader.levels import Decision, Window, knee, roof

TOLERANCE = 0.02
"""Half of what two windows differ by on a busy machine; the promise to users is 3 %."""
MOST_PREFETCH = 8
UNEVEN = 0.5
"""The coefficient of variation of fetch times above which deeper queues can help."""
_WORSE = 0.1
_FAR_BELOW = 0.85
"""A best rate below this share of the roofline is doubted once: something may have disturbed it."""
_CLOSE = 0.9
"""A level whose rate is above this share of the best one's may be the better in truth."""
_PATIENCE = 3


Phase = Literal["first", "levels", "prefetch", "settled"]


class Controller:
    """Takes windows, returns decisions.

    Args:
        cpus: usable CPUs, shared among the ranks of this host already.
        most: the highest level allowed; may be lowered later by `limit`.
        prefetch: the prefetch factor to begin with.
        tolerance: gains below this share are none.
    """

    def __init__(
        self, *, cpus: float, most: int, prefetch: int = 2, tolerance: float = TOLERANCE
    ) -> None:
        self._cpus = cpus
        self._most = max(1, most)
        self._tolerance = tolerance
        self._phase: Phase = "first"
        self._windows: dict[int, list[Window]] = {}
        self._again: list[int] | None = None
        self._by_prefetch: dict[int, float] = {}
        self._target = 1
        self._roof = 0.0
        self._looked_twice = False
        self._floor = 1
        self._bad = 0
        self._idle = 0
        self._limited = False
        self.level = 1
        self.prefetch = prefetch

    @property
    def settled(self) -> bool:
        """Whether it has found what it looked for."""
        return self._phase == "settled"

    def limit(self, most: int, reason: str) -> Decision | None:
        """Lower (or raise) the highest level; return a decision if there are too many now."""
        self._most = max(1, most)
        fits = self._most.__ge__
        self._windows = {level: seen for level, seen in self._windows.items() if fits(level)}
        if self._again is not None:
            self._again = list(filter(fits, self._again))
        if self.level <= self._most:
            return None
        self._limited = True
        return self._go(self._most, reason, None)

    def observe(self, window: Window) -> Decision | None:
        """Take a window at the present level; return what to change, ``None`` to go on."""
        if (window.level, window.prefetch) != (self.level, self.prefetch):
            return None
        if self._phase == "first":
            return self._first(window)
        if self._phase == "levels":
            self._note(window)
            return self._next_level(window)
        if self._phase == "prefetch":
            return self._next_prefetch(window)
        return self._watch(window)

    def _note(self, window: Window) -> None:
        self._windows.setdefault(window.level, []).append(window)

    def _rate(self, level: int) -> float:
        """The mean rate of a level's windows: there are two at most, so nothing sturdier helps."""
        return fmean(window.rate for window in self._windows[level])

    def _first(self, window: Window) -> Decision:
        self._note(window)
        if window.wait_share < self._tolerance:
            return self._settle(
                window, f"the loop waits {window.wait_share:.1%} of the time: one worker keeps up"
            )
        found = knee(window, self._cpus)
        target = min(max(2, math.ceil(found - 0.1)) if math.isfinite(found) else 2, self._most)
        if target <= window.level:
            return self._settle(window, f"{self._most} workers is the most that fit")
        self._phase = "levels"
        self._target = target
        self._roof = roof(window, target, self._cpus)
        return self._go(
            target,
            f"a batch takes a worker {window.fetch * 1e3:.1f} ms and {window.worker_cpu * 1e3:.1f} "
            f"ms of CPU, a step {window.step * 1e3:.1f} ms: the knee is near {found:.1f} workers",
            window,
        )

    def _chosen(self) -> int:
        """The fewest workers within the tolerance of the best rate so far."""
        enough = (1 - self._tolerance) * max(map(self._rate, self._windows))
        return min(level for level in self._windows if self._rate(level) >= enough)

    def _next_level(self, window: Window) -> Decision:
        best = self._chosen()
        latest = self._windows[best][-1]
        waits = latest.wait_share >= self._tolerance
        if waits and (up := self._higher(best)) is not None:
            return self._go(
                up,
                f"with {best} {'worker' if best == 1 else 'workers'} the loop still waits",
                window,
            )
        below = max((level for level in self._windows if level < best), default=best)
        gap = best - below
        if gap > max(1, best // 8):
            down = best - max(1, round(gap / 3))
            return self._go(down, f"{best} workers may be more than it takes", window)
        if (again := self._next_again()) is not None:
            return self._go(again, "close to the best: measured again", window)
        best = self._chosen()
        if latest.fetch_variation >= UNEVEN and waits and self.prefetch < MOST_PREFETCH:
            self._phase = "prefetch"
            self._by_prefetch = {self.prefetch: self._rate(best)}
            self.level = best
            self.prefetch *= 2
            return Decision(
                best,
                self.prefetch,
                f"{best} workers; batches take uneven time, so a deeper queue is tried",
                window,
            )
        doubtful = self._target <= self._most and self._rate(best) < _FAR_BELOW * self._roof
        if doubtful and not self._looked_twice:
            self._looked_twice = True
            self._windows.pop(self._target, None)
            return self._go(self._target, "far below what it should reach: measured again", window)
        others = ", ".join(
            f"{level}: {self._rate(level) / self._rate(best) - 1:+.1%}"
            for level in sorted(self._windows)
            if level != best
        )
        return self._settle(window, f"{best} workers; others differ by ({others})", best)

    def _higher(self, best: int) -> int | None:
        """Return the next level above all others; one that gained nothing does not end the climb.

        What two neighbours gain can be less than what a window is uncertain by, and more beyond.
        """
        top = max(self._windows)
        if top != best:
            no_worse = self._rate(top) >= (1 - self._tolerance) * self._rate(best)
            above = sum(level > best for level in self._windows)
            if self._again is not None or above > 1 or not no_worse:
                return None
        up = min(top + max(1, round(top / 4)), self._most)
        return up if up > top else None

    def _next_again(self) -> int | None:
        """Return the next level to measure a second time: the chosen one and its closest rival.

        Two windows differ by more than what tells two levels apart.
        """
        if self._again is None:
            best = self._chosen()
            close = _CLOSE * max(map(self._rate, self._windows))
            rivals = [lvl for lvl in self._windows if lvl != best and self._rate(lvl) >= close]
            nearest = min(rivals, key=lambda level: abs(level - best), default=None)
            self._again = [] if nearest is None else [best, nearest]
        return self._again.pop() if self._again else None

    def _next_prefetch(self, window: Window) -> Decision:
        before = max(self._by_prefetch)
        self._by_prefetch[window.prefetch] = window.rate
        if window.rate <= self._by_prefetch[before] * (1 + self._tolerance):
            self.prefetch = before
            return self._settle(window, f"prefetch_factor {before}: a deeper queue gains nothing")
        if window.prefetch * 2 <= MOST_PREFETCH and window.wait_share >= self._tolerance:
            self.prefetch = window.prefetch * 2
            return Decision(self.level, self.prefetch, "the deeper queue helps: one more", window)
        return self._settle(window, f"prefetch_factor {window.prefetch}: the deeper queue helps")

    def _watch(self, window: Window) -> Decision | None:
        """Settled: shrink where the loop has become slower, look again where it starves."""
        needed = math.ceil(window.fetch * window.rate) + 1
        idle = window.wait_share < self._tolerance / 2 and self._floor <= needed < self.level
        self._idle = self._idle + 1 if idle else 0
        if self._idle >= _PATIENCE:
            self._idle = 0
            return self._go(
                needed, f"the loop is slower than the loader: {needed} workers keep up", window
            )
        known = self._windows.get(self.level)
        if known is None:  # after a shrink
            return self._judge_shrink(window)
        starved = window.wait_share > known[-1].wait_share + _WORSE
        freed = self._limited and self._most > self.level
        waits = window.wait_share >= self._tolerance
        self._bad = self._bad + 1 if starved or (freed and waits) else 0
        return self._look_again(window) if self._bad >= _PATIENCE else None

    def _judge_shrink(self, window: Window) -> Decision | None:
        """If fewer workers starve the loop, those before were needed: for good, where they fit."""
        if window.wait_share >= self._tolerance and not self._limited:
            self._floor = self.level + 1
            return self._go(self._floor, "too few: the loop waits", window)
        self._windows[self.level] = [window]
        return None

    def _look_again(self, window: Window) -> Decision:
        self._bad = 0
        self._limited = False
        self._windows = {self.level: [window]}
        self._again = None
        up = min(self.level + max(1, round(self.level / 4)), self._most)
        if up == self.level:
            return self._settle(window, f"the loop waits, and {self._most} workers is the most")
        self._phase = "levels"
        return self._go(up, "the loop waits more than it did: looking again", window)

    def _go(self, level: int, reason: str, window: Window | None) -> Decision:
        self.level = level
        return Decision(level, self.prefetch, reason, window)

    def _settle(self, window: Window, reason: str, level: int | None = None) -> Decision:
        self._phase = "settled"
        self.level = self.level if level is None else level
        return Decision(self.level, self.prefetch, reason, window)
