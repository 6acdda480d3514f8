"""`MemoryGuard`: watches memory while a loop trains, and acts before the kernel kills it."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from feedrate import units
from feedrate.host.limits import MemoryLimits
from feedrate.remedies.memory_sight import MemorySight, SystemSight
from feedrate.remedies.relief import Relief

T = TypeVar("T")
OnLimit = Callable[[MemoryLimits], object]
log = logging.getLogger("feedrate")

LOOK_SECONDS = 0.25
"""Limits are looked at so often at most; a look takes a fraction of a millisecond."""
ABSENT_SECONDS = 2.0
"""A loop that has not come by for so long is in a long step: the thread acts in its place."""
_AHEAD = 2
"""Memory that would be used up within so many looks at its pace is near its end already."""
_SETTLING_SECONDS = 5.0
"""A worker that was let go delivers what it holds first."""


class MemoryGuard:
    """Logs memory at intervals, and acts in steps when a limit comes near.

    Use it as a wrapper of the loop (``for batch in guard.watch(loader)``), by a call in each step
    (``guard.check()``, or ``guard.callback`` where a framework wants a function), or as a context
    manager: ``with MemoryGuard(save):`` looks from a thread, whatever the loop does.

    Near the limit of the memory that this process may use (that of its control group, or the
    machine's) it collects reference cycles and empties the device's cache once; then lets workers
    of a `feedrate.DataLoader` go, one at a time; then calls ``on_limit``. A loader with
    ``num_workers="auto"`` watches memory itself and is left alone. Workers are let go between
    batches only, so not by the thread. All of it is logged to the logger "feedrate".

    Args:
        on_limit: called once each time that the limit comes near and nothing else helped, with
            what is left: the place to save a checkpoint, and to raise to stop. From a thread it
            runs beside the loop; what it raises there is logged, and the first of it raised when
            the context ends.
        loader: whose workers may be let go; `watch` knows its own.
        near: the limit is near when so much of it is used, as a share.
        interval: seconds between two lines in the log.
        sight: reads memory; this machine's if left out.
        clock: seconds from any origin.

    Raises:
        ValueError: ``near`` is no share, or ``interval`` not above 0.
    """

    def __init__(
        self,
        on_limit: OnLimit | None = None,
        *,
        loader: Any = None,
        near: float = 0.9,
        interval: float = 60.0,
        sight: MemorySight | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < near < 1:
            raise ValueError(f"near is a share of the limit between 0 and 1, not {near}")
        if interval <= 0:
            raise ValueError(f"interval must be above 0 seconds, not {interval}")
        self._on_limit = on_limit
        self._loader = loader
        self._near = near
        self._interval = interval
        self._sight = sight or SystemSight()
        self._clock = clock
        self._begin = clock()
        self._logged_at = -interval + self._begin
        self._looked: tuple[float, int] | None = None
        self._checked_at: float | None = None
        self._shrank_at: float | None = None
        self._is_near = False
        self._told = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._raised: BaseException | None = None

    def check(self) -> bool:
        """Look, if it is time to, and act; return whether the limit is near.

        Call it between two steps. It returns at once where the last look is fresh.
        """
        self._checked_at = self._clock()
        return self._look(in_loop=True)

    def callback(self, *_args: Any, **_options: Any) -> None:
        """Do `check` where a framework calls a function; what it passes is ignored."""
        self.check()

    def watch(self, loader: Iterable[T]) -> Watched[T]:
        """Return the loader with a `check` after each batch."""
        if self._loader is None:
            self._loader = loader
        return Watched(loader, self)

    def collect(self) -> Relief:
        """Collect reference cycles; return what that freed of this process's memory."""
        found = 0

        def run() -> None:
            nonlocal found
            found = gc.collect()

        freed, seconds = self._measured(run, self._sight.own_bytes)
        return self._logged(Relief("collection", freed, seconds, found))

    def empty_device_cache(self) -> Relief:
        """Empty the device's cache; return what that freed of the device's memory."""
        freed, seconds = self._measured(self._sight.empty_device_cache, self._reserved)
        return self._logged(Relief("device cache", freed, seconds))

    def __enter__(self) -> MemoryGuard:
        self._ended.clear()
        self._raised = None
        self._thread = threading.Thread(target=self._run, name="feedrate-memory-guard", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._raised is not None and kind is None:
            raise self._raised

    def _run(self) -> None:
        last = ""
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self._look_from_outside()
            except BaseException as error:  # noqa: PERF203 - four times a second
                if repr(error) != last:  # what every look meets is told once
                    last = repr(error)
                    first = self._raised is None
                    ending = ", and it is raised when the context ends" if first else ""
                    log.exception("memory: %s; watching goes on%s", last, ending)
                self._raised = self._raised or error

    def _look_from_outside(self) -> None:
        """Look in the loop's place, unless the loop comes by and does it."""
        checked = self._checked_at
        if checked is None or self._clock() - checked >= ABSENT_SECONDS:
            self._look(in_loop=False)

    def _look(self, in_loop: bool) -> bool:
        now = self._clock()
        fresh = self._looked is not None and now - self._looked[0] < LOOK_SECONDS
        if fresh or not self._lock.acquire(blocking=False):
            return self._is_near
        try:
            limits = self._sight.limits()
            pace = self._pace(now, limits)
            self._looked = (now, limits.free)
            if now - self._logged_at >= self._interval:
                self._logged_at = now
                self._log(now, limits)
            self._judge(now, limits, pace, in_loop)
        finally:
            self._lock.release()
        return self._is_near

    def _pace(self, now: float, limits: MemoryLimits) -> float:
        """Return how much memory may be gone within the next looks, at the pace since the last.

        At most as much as the margin: a model that is loaded takes much at once, and then no more.
        """
        if self._looked is None or now <= self._looked[0]:
            return 0.0
        since, before = self._looked
        ahead = _AHEAD * max(now - since, LOOK_SECONDS)
        pace = (before - limits.free) / (now - since) * ahead
        return min(max(0.0, pace), self._margin(limits))

    def _margin(self, limits: MemoryLimits) -> float:
        return (1 - self._near) * _limit(limits)

    def _judge(self, now: float, limits: MemoryLimits, pace: float, in_loop: bool) -> None:
        margin = self._margin(limits)
        if limits.free - pace > margin:
            # Not while it moves around the margin. Where `near` is small, half of that is more than
            # there is beyond it.
            if limits.free > margin + min(margin, _limit(limits) - margin) / 2:
                self._is_near = self._told = False
            return
        if not self._is_near:
            self._is_near = True
            log.warning(
                "memory: %s of %s left (%s)",
                units.size(limits.free), units.size(_limit(limits)), limits.source,
            )  # fmt: skip
            self.collect()
            if self._sight.device() is not None:
                self.empty_device_cache()
            limits = self._sight.limits()
            if limits.free - pace > margin:
                return
        if limits.free - pace > margin / 2 and self._shrinks(now, in_loop):
            return
        if not self._told and self._on_limit is not None:
            self._told = True
            log.warning("memory: calling on_limit with %s left", units.size(limits.free))
            self._on_limit(limits)

    def _shrinks(self, now: float, in_loop: bool) -> bool:
        """Let a worker go; return whether there is one that goes, or that still may help."""
        if self._shrank_at is not None and now - self._shrank_at < _SETTLING_SECONDS:
            return True
        shrink = getattr(self._loader, "shrink", None)
        if not in_loop or shrink is None or getattr(self._loader, "pilot", None) is not None:
            return False
        try:
            shrink(1)
        except ValueError:  # one has to stay
            return False
        self._shrank_at = now
        log.warning("memory: a worker is let go, %d stay", self._loader.num_workers)
        return True

    def _log(self, now: float, limits: MemoryLimits) -> None:
        parts = []
        tree = self._sight.tree(now - self._begin)
        if tree is not None:
            parts.append(f"main process {units.size(_held(tree.main))}")
            if tree.workers is not None:
                parts.append(f"{tree.worker_count} workers {units.size(_held(tree.workers))}")
        parts.append(f"{units.size(limits.free)} left ({limits.source})")
        device = self._sight.device()
        if device is not None:
            parts.append(
                f"device {units.size(device.allocated)} in tensors, "
                f"{units.size(device.reserved)} reserved"
            )
        log.info("memory: %s", ", ".join(parts))

    def _reserved(self) -> int | None:
        device = self._sight.device()
        return None if device is None else device.reserved

    def _measured(
        self, run: Callable[[], None], read: Callable[[], int | None]
    ) -> tuple[int, float]:
        before = read()
        begin = self._clock()
        run()
        seconds = self._clock() - begin
        after = read()
        return (0 if before is None or after is None else max(0, before - after)), seconds

    def _logged(self, relief: Relief) -> Relief:
        log.info("memory: %s", relief)
        return relief


class Watched(Generic[T]):
    """A loader that a guard watches: iterates as it does, with a `MemoryGuard.check` a batch."""

    def __init__(self, loader: Iterable[T], guard: MemoryGuard) -> None:
        self.loader = loader
        self._guard = guard

    def __iter__(self) -> Iterator[T]:
        for batch in self.loader:
            self._guard.check()
            yield batch

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # raises as the loader's own does


def _limit(limits: MemoryLimits) -> int:
    """Return the size of what bounds the process."""
    bounded = limits.source == "cgroup limit" and limits.cgroup_limit is not None
    return limits.cgroup_limit or limits.total if bounded else limits.total


def _held(reading: Any) -> int:
    """Return the proportional size where it is told; added RSS counts shared pages twice."""
    return int(reading.rss if reading.pss is None else reading.pss)
