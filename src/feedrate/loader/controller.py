"""How many workers, and how much prefetching: decided window by window. Pure.

The rule is that of a sweep's plateau: the fewest workers whose rate is within the tolerance of the
best rate seen. Which counts are tried follows from the feeding roofline: with one worker the loop
takes l seconds to be fed a batch, which costs c CPU seconds in all processes together; on C CPUs
and with a step of s seconds more than N* = l × min(C ÷ c, 1 ÷ s) workers have nothing to add. The
controller measures there, then above while the loop still waits, then below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

TOLERANCE = 0.02
"""Half of what two windows differ by on a busy machine; the promise to users is 3 %."""
MOST_PREFETCH = 8
UNEVEN = 0.5
"""The coefficient of variation of fetch times above which deeper queues can help."""
_WORSE = 0.1
_FAR_BELOW = 0.85
"""A best rate below this share of the roofline is doubted once: something may have disturbed it."""
_PATIENCE = 3


@dataclass(frozen=True, slots=True)
class Window:
    """Some whole rounds at one level. Times are seconds a batch, means over the window.

    ``wait`` is the time blocked in ``next()``, ``step`` that between two calls; ``fetch`` is what a
    worker takes for a batch (wall), ``worker_cpu`` and ``main_cpu`` its CPU seconds there and in
    the main process; ``fetch_variation`` is the standard deviation of fetch times over their mean.
    """

    level: int
    prefetch: int
    batches: int
    wait: float
    step: float
    fetch: float
    worker_cpu: float
    main_cpu: float
    fetch_variation: float = 0.0

    @property
    def rate(self) -> float:
        """Batches per second."""
        return 1 / max(self.wait + self.step, 1e-9)

    @property
    def wait_share(self) -> float:
        """The share of the time that the loop waits, 0 to 1."""
        return self.wait * self.rate


@dataclass(frozen=True, slots=True)
class Decision:
    """What the controller wants, and why: one entry of a loader's history."""

    level: int
    prefetch: int
    reason: str
    window: Window | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return one line: "4 workers, prefetch_factor 2: with 2 workers the loop still waits"."""
        count = f"{self.level} worker{'' if self.level == 1 else 's'}"
        return f"{count}, prefetch_factor {self.prefetch}: {self.reason}"


Phase = Literal["first", "levels", "prefetch", "settled"]


def knee(window: Window, cpus: float) -> float:
    """Return N*, from a window with one worker."""
    cpu = window.worker_cpu + window.main_cpu
    by_cpus = cpus / cpu if cpu > 0 else math.inf
    by_step = 1 / window.step if window.step > 0 else math.inf
    bound = min(by_cpus, by_step)
    return window.fetch * bound if math.isfinite(bound) else math.inf


def roof(window: Window, level: int, cpus: float) -> float:
    """Return the highest rate that a level can reach, from a window with one worker."""
    cpu = window.worker_cpu + window.main_cpu
    bounds = [level / window.fetch] if window.fetch > 0 else []
    bounds += [cpus / cpu] if cpu > 0 else []
    bounds += [1 / window.step] if window.step > 0 else []
    return min(bounds, default=0.0)


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
        self._rates: dict[int, Window] = {}
        self._by_prefetch: dict[int, float] = {}
        self._target = 1
        self._roof = 0.0
        self._looked_twice = False
        self._floor = 1
        self._bad = 0
        self._idle = 0
        self.level = 1
        self.prefetch = prefetch

    @property
    def settled(self) -> bool:
        """Whether it has found what it looked for."""
        return self._phase == "settled"

    def limit(self, most: int, reason: str) -> Decision | None:
        """Lower (or raise) the highest level; return a decision if there are too many now."""
        self._most = max(1, most)
        if self.level <= self._most:
            return None
        return self._go(self._most, reason, None)

    def observe(self, window: Window) -> Decision | None:
        """Take a window at the present level; return what to change, ``None`` to go on."""
        if (window.level, window.prefetch) != (self.level, self.prefetch):
            return None
        if self._phase == "first":
            return self._first(window)
        if self._phase == "levels":
            self._rates[window.level] = window
            return self._next_level(window)
        if self._phase == "prefetch":
            return self._next_prefetch(window)
        return self._watch(window)

    def _first(self, window: Window) -> Decision:
        self._rates[window.level] = window
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
        top = max(window.rate for window in self._rates.values())
        enough = (1 - self._tolerance) * top
        return min(level for level, window in self._rates.items() if window.rate >= enough)

    def _next_level(self, window: Window) -> Decision:
        best = self._chosen()
        if best == max(self._rates) and self._rates[best].wait_share >= self._tolerance:
            up = min(best + max(1, round(best / 4)), self._most)
            if up > best:
                return self._go(up, f"with {best} workers the loop still waits", window)
        below = max((level for level in self._rates if level < best), default=best)
        gap = best - below
        if gap > max(1, best // 8):
            down = best - max(1, round(gap / 3))
            return self._go(down, f"{best} workers may be more than it takes", window)
        if self._rates[best].fetch_variation >= UNEVEN and (
            self._rates[best].wait_share >= self._tolerance and self.prefetch < MOST_PREFETCH
        ):
            self._phase = "prefetch"
            self._by_prefetch = {self.prefetch: self._rates[best].rate}
            self.level = best
            self.prefetch *= 2
            return Decision(
                best,
                self.prefetch,
                f"{best} workers; batches take uneven time, so a deeper queue is tried",
                window,
            )
        if not self._looked_twice and self._rates[best].rate < _FAR_BELOW * self._roof:
            self._looked_twice = True
            self._rates.pop(self._target, None)
            return self._go(self._target, "far below what it should reach: measured again", window)
        others = ", ".join(
            f"{level}: {other.rate / self._rates[best].rate - 1:+.1%}"
            for level, other in sorted(self._rates.items())
            if level != best
        )
        return self._settle(window, f"{best} workers; others differ by ({others})", best)

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
        known = self._rates.get(self.level)
        if known is None:  # after a shrink
            return self._judge_shrink(window)
        starved = window.wait_share > known.wait_share + _WORSE
        self._bad = self._bad + 1 if starved else 0
        return self._look_again(window) if self._bad >= _PATIENCE else None

    def _judge_shrink(self, window: Window) -> Decision | None:
        """If fewer workers starve the loop, those before were needed: for good."""
        if window.wait_share >= self._tolerance:
            self._floor = self.level + 1
            return self._go(self._floor, "too few: the loop waits", window)
        self._rates[self.level] = window
        return None

    def _look_again(self, window: Window) -> Decision:
        self._bad = 0
        self._rates = {self.level: window}
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
