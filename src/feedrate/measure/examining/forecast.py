"""How long a trial will take, so that none is begun that cannot come to its end: pure."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDS = 2
"""How many windows of each side a trial compares."""
WINDOW_SECONDS = 0.7
SHORTEST_WINDOW = 0.35
"""A window is made as short as this where time is."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """One trial of a loader against itself. Times are seconds.

    ``starts`` is what the workers of each of the two take to start. ``epoch`` is an epoch without
    that, ``None`` where it is not known. ``kept`` tells that the workers of both stay from epoch to
    epoch. ``queued`` batches of each may wait in front of a window: they come at ``batch`` seconds
    each the first time, or sooner by the other's ``speedup`` in workers, and later, when they have
    long been made, at the ``step``'s. An epoch of the other is shorter by the same.
    """

    starts: tuple[float, float]
    epoch: float | None
    kept: bool
    length: int | None
    batch: float
    queued: tuple[int, int]
    step: float = 0.0
    speedup: float = 1.0

    @property
    def by_epochs(self) -> bool:
        """Whether an epoch has too few batches for a window within: then whole epochs are taken."""
        window = int(WINDOW_SECONDS / max(self.batch, 1e-6))
        return self.length is not None and self.length < 3 * max(self.queued) + window

    def window(self, left: float) -> float:
        """Return the seconds of a window that lets the trial end in the time that is left."""
        spare = left - self._around()
        return min(WINDOW_SECONDS, max(SHORTEST_WINDOW, spare / (2 * ROUNDS)))

    def needs(self, left: float) -> float:
        """Return what the trial takes; infinite where an epoch's time is not known and needed."""
        if not self.by_epochs:
            return self._around() + 2 * ROUNDS * self.window(left)
        if self.epoch is None:
            return float("inf")
        starts = sum(self.starts) * (1 if self.kept else ROUNDS)
        return starts + ROUNDS * (self.epoch + self.epoch / self.speedup)

    def _around(self) -> float:
        """Return the time around the windows: starts, and what waits in front of each window."""
        starts = sum(self.starts)
        window = WINDOW_SECONDS / max(self.batch, 1e-6)
        if not self.kept and self.length is not None:
            rounds = ROUNDS * (max(self.queued) + int(window))
            starts *= max(1, -(-rounds // max(1, self.length)))
        own, other = self.queued
        first = own * self.batch + other * self.batch / self.speedup
        return starts + first + (ROUNDS - 1) * (own + other) * self.step
