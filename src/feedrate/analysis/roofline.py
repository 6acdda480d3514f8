"""The feeding roofline: what bounds a loop that is fed by workers, and at how many workers.

Three ceilings, in batches/s, and throughput is at most the lowest. N workers that take l seconds
(wall) for a batch deliver N ÷ l. C usable CPUs at c CPU seconds a batch, workers and main process
together, deliver C ÷ c. The loop takes a batch every s seconds, its step and the cost of taking a
batch, so 1 ÷ s. More workers than the knee, N* = l × min(C ÷ c, 1 ÷ s), have nothing to add; where
l is much more than c, the workers wait for storage and more of them than CPUs pay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from feedrate import units
from feedrate.analysis.windows import Stretch
from feedrate.analysis.wording import workers

Bound = Literal["workers", "cpus", "loop"]

_WAITS = 0.1
"""Below this share of waiting the workers were not busy all the time."""
WAITS_FOR_STORAGE = 0.5
"""Below this share of CPU time in a fetch the worker mostly waits for something else."""


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """The ceilings of one loop. Times are seconds a batch; ``None``: not measured, no bound.

    Attributes:
        cpus: usable CPUs, a fraction under a quota.
        fetch: what a worker takes for a batch (wall), at the lowest level measured.
        worker_cpu: CPU seconds of that.
        cpu: CPU seconds a batch in all processes together, the least of all levels.
        loop: what the loop takes for a batch when the loader costs nothing.
        alone: what it takes for fetch and step in turn, where it was measured without workers.
    """

    cpus: float
    fetch: float | None = None
    worker_cpu: float | None = None
    cpu: float | None = None
    loop: float | None = None
    alone: float | None = None

    def ceiling(self, bound: Bound, level: int) -> float:
        """Return one ceiling at a level, in batches/s; infinite where nothing tells."""
        if bound == "workers":
            return _over(max(level, 1), self.fetch)
        if bound == "cpus":
            return _over(self.cpus, self.cpu)
        return _over(1, self.loop)

    def at(self, level: int) -> float:
        """Return the most batches/s at a level; infinite where nothing tells.

        At level 0 the main process fetches and steps in turn, and sends nothing: what workers
        cost tells little of it where it was measured itself.
        """
        if level == 0:
            if self.alone is not None:
                return _over(1, self.alone)
            if self.fetch is None:
                return math.inf
            return min(_over(1, self.fetch + (self.loop or 0.0)), self.ceiling("cpus", 0))
        return min(self.ceiling(bound, level) for bound in ("workers", "cpus", "loop"))

    def binding(self, level: int) -> Bound | None:
        """Return the lowest ceiling at a level; ``None`` where none is known, or at level 0."""
        if level == 0 or not math.isfinite(self.at(level)):
            return None
        bounds: tuple[Bound, ...] = ("loop", "cpus", "workers")
        return min(bounds, key=lambda bound: self.ceiling(bound, level))

    @property
    def knee(self) -> float | None:
        """The number of workers beyond which none has anything to add, as a fraction."""
        bound = min(self.ceiling("cpus", 1), self.ceiling("loop", 1))
        return self.fetch * bound if self.fetch and math.isfinite(bound) else None

    @property
    def waits_for_storage(self) -> bool:
        """Whether a worker mostly waits, so that more workers than CPUs pay."""
        if not self.fetch or self.worker_cpu is None:
            return False
        return self.worker_cpu < WAITS_FOR_STORAGE * self.fetch

    def words(self, bound: Bound, level: int) -> str:
        """Say what a ceiling is and where it comes from, in batches/s."""
        most = f"at most {units.rate(self.ceiling(bound, level))} batches/s"
        if bound == "workers":
            have = "gives" if level == 1 else "give"
            return f"{workers(level)} at {units.seconds(self.fetch or 0)} a batch {have} {most}"
        if bound == "cpus":
            count = units.number(self.cpus)
            cpus, have = ("CPU", "gives") if self.cpus == 1 else ("CPUs", "give")
            return f"{count} {cpus} at {units.seconds(self.cpu or 0)} of CPU a batch {have} {most}"
        return f"the loop itself takes {units.seconds(self.loop or 0)} a batch: {most}"


def roofline(levels: Sequence[Stretch], cached: Stretch | None, cpus: float) -> Roofline:
    """Return the roofline from the lowest level with workers, and the loop fed by one batch.

    ``levels`` ascend. Without ``cached`` the loop's own time is the mean step of the lowest level.
    """
    fed = [each for each in levels if each.level > 0]
    zero = next((each for each in levels if each.level == 0), None)
    first = next((each for each in fed if each.fetch), fed[0] if fed else zero)
    if first is None:
        return Roofline(cpus=cpus, loop=_loop(cached, None))
    # The least that was seen, and no more than the rates allow: what a level has passed is no
    # ceiling, and clocks of processes are read a little before or after the batches are counted.
    loop = _least(_loop(cached, first), *(_over(1, each.batch_rate) for each in levels))
    return Roofline(
        cpus=cpus,
        fetch=_least(_fetch(first), *(_over(each.level, each.batch_rate) for each in fed)),
        worker_cpu=first.worker_cpu,
        cpu=_least(
            min((each.cpu for each in fed if each.cpu), default=first.cpu),
            *(_over(cpus, each.batch_rate) for each in fed),
        ),
        loop=loop,
        alone=_alone(zero, loop) if zero is not None else None,
    )


def _fetch(first: Stretch) -> float | None:
    """Return what a batch takes a worker; where nobody timed it, from how often one came."""
    if first.fetch:
        return first.fetch
    if first.level == 0:  # there the wait is the fetch
        return first.wait or None
    waited = first.wait_share > _WAITS and first.batch_rate > 0
    return first.level / first.batch_rate if waited else None


def _loop(cached: Stretch | None, first: Stretch | None) -> float | None:
    if cached is not None and cached.batch_rate > 0:
        return 1 / cached.batch_rate
    return (first.step or None) if first is not None else None


def _least(measured: float | None, *allowed: float) -> float | None:
    """Return the least, ``None`` where nothing was measured."""
    return min((measured, *allowed)) if measured else None


def _alone(zero: Stretch, loop: float | None) -> float | None:
    """Return what a batch takes without workers: the wait for it is its fetch."""
    return zero.wait + min(zero.step, loop or zero.step) or None


def _over(count: float, seconds: float | None) -> float:
    return count / seconds if seconds else math.inf
