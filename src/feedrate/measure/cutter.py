"""Cutting what one loader delivers into one window: what is left out, and when it is enough. Pure.

In a long epoch the window lies within it, after the first rounds. Where an epoch ends before, the
user pays for its beginning again and again, so whole epochs from the second on are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from feedrate.records import Window, WindowPhase

SETTLING_ROUNDS = 4
"""Rounds that are not measured: the queues fill, the first steps warm up, and bursts even out."""
LEAST_BATCHES = 10
_LONGEST = 3.0
"""How many times the wanted seconds a window may last until it has enough batches."""
_KEPT = 10_000
"""Of how many batches the seconds are kept one by one."""


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU seconds so far, of the main process and of all workers; ``None`` if nobody tells."""

    main: float
    workers: float | None


@dataclass(slots=True)
class Part:
    """Some batches. ``more_wait`` is waiting that belongs to none of them: the end of an epoch."""

    waits: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    items: int = 0
    more_wait: float = 0.0
    main_cpu: float = 0.0
    worker_cpu: float | None = 0.0
    _seconds: float = 0.0

    @property
    def batches(self) -> int:
        """How many batches there are."""
        return len(self.waits)

    @property
    def seconds(self) -> float:
        """All waits and steps together."""
        return self._seconds + self.more_wait

    def add(self, wait: float, step: float, items: int) -> None:
        """Add a batch."""
        self.waits.append(wait)
        self.steps.append(step)
        self.items += items
        self._seconds += wait + step

    def lengthen(self, seconds: float) -> None:
        """Add to the step of the last batch."""
        if self.steps:
            self.steps[-1] += seconds
            self._seconds += seconds

    def add_cpu(self, before: CpuSeconds, after: CpuSeconds) -> None:
        """Add what was used between two readings."""
        self.main_cpu += after.main - before.main
        if self.worker_cpu is None or before.workers is None or after.workers is None:
            self.worker_cpu = None
        else:
            self.worker_cpu += max(0.0, after.workers - before.workers)

    def join(self, other: Part) -> None:
        """Add all of another part."""
        self.waits += other.waits
        self.steps += other.steps
        self.items += other.items
        self.more_wait += other.more_wait
        self.main_cpu += other.main_cpu
        if self.worker_cpu is not None:
            self.worker_cpu = (
                None if other.worker_cpu is None else self.worker_cpu + other.worker_cpu
            )
        self._seconds += other._seconds

    def window(self, *, level: int, prefetch: int | None, phase: WindowPhase) -> Window:
        """Return the record."""
        waited, stepped = sum(self.waits) + self.more_wait, sum(self.steps)
        count = max(self.batches, 1)
        return Window(
            level=level,
            batches=self.batches,
            items=self.items,
            seconds=waited + stepped,
            phase=phase,
            wait_seconds=waited,
            step_seconds=stepped,
            prefetch=prefetch,
            worker_cpu_seconds=None if self.worker_cpu is None else self.worker_cpu / count,
            main_cpu_seconds=self.main_cpu / count,
            batch_waits=tuple(round(wait, 7) for wait in self.waits[-_KEPT:]),
            batch_steps=tuple(round(step, 7) for step in self.steps[-_KEPT:]),
        )


class Cutter:
    """Takes what happens at one loader, in its order; knows when the window is complete.

    Args:
        seconds: how long the window is to be, waits and steps together.
        round_batches: how many batches make a round: the workers, or 1 without.
        needs_training: only iterations count in which an optimizer steps. A script may also go
            through its training loader to compute a mean, or to test on it.
        whole_epochs: where an epoch is too short for the window, measure whole ones. Without, the
            window goes on in the next: where beginning one costs nothing.
        cpu: reads the CPU clocks.
    """

    def __init__(
        self,
        seconds: float,
        *,
        round_batches: int,
        needs_training: bool,
        cpu: Callable[[], CpuSeconds],
        whole_epochs: bool = True,
    ) -> None:
        self._wanted = seconds
        self._round = max(1, round_batches)
        self._needs_training = needs_training
        self._whole_epochs = whole_epochs
        self._cpu = cpu
        self._kept = Part()
        self._now = Part()
        self._early = Part()
        self._within = Part()
        self._ended = 0
        self._settling = SETTLING_ROUNDS * self._round
        self._settled_seconds = 0.0
        self._trains = False
        self._begin = 0.0
        self._taken: tuple[float, int] | None = None
        self._cpu_at: CpuSeconds | None = None
        self._is_first = True
        self._stepped = 0
        self._longest_epoch = 0

    def begins(self, seconds: float) -> None:
        """An iteration begins; ``iter()`` took so long."""
        self.ends(0.0)  # the one before may have been given up
        self._begin = seconds
        self._is_first = True
        if self._ended and self._whole_epochs:
            self._settling = 0
        if not self._settling:
            self._cpu_at = self._cpu()

    def takes(self, wait: float, items: int) -> None:
        """The loop has got a batch."""
        self._taken = (wait + self._begin, items)
        self._begin = 0.0

    def steps(self, seconds: float | None) -> None:
        """The loop asks for the next batch; ``None``: what it did since is no step."""
        taken, self._taken = self._taken, None
        if taken is None or seconds is None:
            return
        wait, items = taken
        if not self._settling:
            self._now.add(wait, seconds, items)
        else:
            if not self._is_first:
                self._early.add(wait, seconds, items)
                self._settled_seconds += wait  # the first one is the start
            self._settling -= 1
            self._settled_seconds += seconds
            if self._settled_seconds >= self._wanted:
                self._settling = 0
            if not self._settling:
                self._cpu_at = self._cpu()
        self._is_first = False
        self._stepped += 1

    def trains(self) -> None:
        """An optimizer steps."""
        self._trains = True

    def ends(self, wait: float) -> None:
        """The iteration ends, or was given up; finding the end took so long.

        The batch that was taken last is left out where nobody knows how long its step was.
        """
        self._taken = None
        now, self._now = self._now, Part()
        self._stop_cpu(now)
        trained, self._trains = self._trains, False
        stepped, self._stepped = self._stepped, 0
        self._is_first = True
        if not stepped:
            return  # somebody only looked at a batch
        if self._needs_training and not trained:
            if not self._ended:
                self._early = Part()
                self._settling = SETTLING_ROUNDS * self._round
                self._settled_seconds = 0.0
            return
        if not self._whole_epochs:
            self._kept.join(now)
        elif self._ended:
            now.more_wait += wait
            self._kept.join(now)
        else:
            self._within = now
        self._ended += 1
        self._longest_epoch = max(self._longest_epoch, stepped)

    def lengthens(self, seconds: float) -> None:
        """The last step took longer: the device had not done its work yet."""
        self._now.lengthen(seconds)

    @property
    def is_full(self) -> bool:
        """Whether the window is complete; asked after a step, or after an end."""
        if self._now.batches:
            return self._is_full_within()
        return self._is_enough(self._kept, 1.0)

    def _is_full_within(self) -> bool:
        if self._now.batches % self._round or (self._needs_training and not self._trains):
            return False
        if self._ended and self._whole_epochs:
            # an epoch is waited for, unless it has become far longer than those before
            longer = self._now.batches > self._longest_epoch
            return longer and self._is_enough(self._now, _LONGEST)
        seconds = self._kept.seconds + self._now.seconds
        return _is_enough(seconds, self._kept.batches + self._now.batches, self._wanted)

    def _is_enough(self, part: Part, times: float) -> bool:
        return _is_enough(part.seconds, part.batches, times * self._wanted)

    def result(self) -> Part | None:
        """Return the window, or the best there is so far; ``None`` where there is nothing.

        The present iteration counts only where the window is complete, or has no other.
        """
        self._stop_cpu(self._now)
        counts = not self._needs_training or self._trains
        if self._now.batches and counts and (self.is_full or not self._whole_epochs):
            whole = Part()
            whole.join(self._kept)
            whole.join(self._now)
            return whole
        choices = [self._kept, self._within]
        if counts:
            choices.append(self._now)
        if counts or self._ended:
            choices.append(self._early)
        return next((part for part in choices if part.batches), None)

    def _stop_cpu(self, part: Part) -> None:
        if self._cpu_at is not None:
            part.add_cpu(self._cpu_at, self._cpu())
            self._cpu_at = None


def _is_enough(seconds: float, batches: int, wanted: float) -> bool:
    if not batches:
        return False
    return seconds >= wanted and (batches >= LEAST_BATCHES or seconds >= _LONGEST * wanted)
