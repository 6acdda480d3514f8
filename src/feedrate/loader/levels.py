"""What is seen at a level, what is decided from it, and what the roofline predicts. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Window:
    """Some whole rounds at one level. Times are seconds a batch, means over the window.

    ``wait`` is the time blocked in ``next()``, or what it would be without batches that workers of
    a higher level have left in the queue; ``step`` is that between two calls; ``fetch`` is what a
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
