"""Windows taken together: rates, shares and percentiles of a stretch that one run measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np

from feedrate.records import Window, WindowPhase

Part = Literal["wait", "step"]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """One or more windows at one level, as one.

    Times are seconds a batch, means over the stretch; ``None`` where no window has them. ``rate``
    is items/s, ``batch_rate`` batches/s. ``wait_share`` is the share of the time that the loop was
    blocked, 0 to 1: near 0 the loader keeps up, near 1 the loop does nothing but wait.
    """

    level: int
    prefetch: int | None
    batches: int
    items: int
    seconds: float
    wait: float
    step: float
    fetch: float | None = None
    worker_cpu: float | None = None
    main_cpu: float | None = None
    fetch_variation: float | None = None

    @property
    def rate(self) -> float:
        """Items per second; 0 where nothing was delivered."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

    @property
    def batch_rate(self) -> float:
        """Batches per second; 0 where nothing was delivered."""
        return self.batches / self.seconds if self.seconds > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """The share of the time that the loop was blocked, 0 to 1."""
        return self.wait * self.batches / self.seconds if self.seconds > 0 else 0.0

    @property
    def items_a_batch(self) -> float:
        """Items in a batch, on the average."""
        return self.items / self.batches if self.batches else 0.0

    @property
    def cpu(self) -> float | None:
        """CPU seconds a batch in all processes together, ``None`` where a part is not known."""
        if self.main_cpu is None or (self.worker_cpu is None and self.level > 0):
            return None
        return self.main_cpu + (self.worker_cpu or 0.0)


def of_phase(windows: Iterable[Window], phase: WindowPhase) -> tuple[Window, ...]:
    """Return the windows of one phase that hold a batch, in their order."""
    return tuple(each for each in windows if each.phase == phase and each.batches > 0)


def together(windows: Sequence[Window]) -> Stretch | None:
    """Return all of the windows as one stretch; ``None`` where they hold no batch.

    The windows are of one level; where they are not, the stretch bears the first one's.
    """
    batches = sum(each.batches for each in windows)
    seconds = sum(each.seconds for each in windows)
    if not batches or seconds <= 0:
        return None
    return Stretch(
        level=windows[0].level,
        prefetch=windows[0].prefetch,
        batches=batches,
        items=sum(each.items for each in windows),
        seconds=seconds,
        wait=sum(each.wait_seconds for each in windows) / batches,
        step=sum(each.step_seconds for each in windows) / batches,
        fetch=_mean(windows, "fetch_seconds"),
        worker_cpu=_mean(windows, "worker_cpu_seconds"),
        main_cpu=_mean(windows, "main_cpu_seconds"),
        fetch_variation=_mean(windows, "fetch_variation"),
    )


def typical(windows: Sequence[Window]) -> Stretch | None:
    """Return the window whose rate is in the middle, of an even number the faster one.

    For a level that was measured several times: what disturbs a window makes it slower, and a ramp
    measures again what it doubts.
    """
    usable = [each for each in windows if each.batches > 0 and each.seconds > 0]
    if not usable:
        return None
    usable.sort(key=lambda each: each.batches / each.seconds)
    return together([usable[len(usable) // 2]])


def by_level(windows: Iterable[Window]) -> tuple[Stretch, ...]:
    """Return one stretch for each level, ascending; of several prefetch factors the fastest."""
    groups: dict[tuple[int, int | None], list[Window]] = {}
    for each in windows:
        groups.setdefault((each.level, each.prefetch), []).append(each)
    chosen: dict[int, Stretch] = {}
    for (level, _), members in groups.items():
        found = typical(members)
        if found is not None and (level not in chosen or found.rate > chosen[level].rate):
            chosen[level] = found
    return tuple(chosen[level] for level in sorted(chosen))


def percentile(windows: Iterable[Window], part: Part, percent: float) -> float | None:
    """Return a percentile over the batches of the windows, in seconds; ``None`` where none is kept.

    ``percent`` is 0 to 100; 50 is the median.
    """
    values = [
        value
        for each in windows
        for value in (each.batch_waits if part == "wait" else each.batch_steps)
    ]
    return float(np.percentile(values, percent)) if values else None


def _mean(windows: Sequence[Window], name: str) -> float | None:
    """Return the mean a batch of what some windows have."""
    known = [
        (value, each.batches) for each in windows if (value := getattr(each, name)) is not None
    ]
    batches = sum(count for _, count in known)
    return sum(value * count for value, count in known) / batches if batches else None
