"""The examination of one loader: what is tried, in the order of its worth, until time is up.

First what needs no user code, then items in a probe, then the loader as it is; where that fails,
only the item at fault is looked for. Trials of correctness come before trials of speed.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from feedrate.measure.blame import one_line, text_of
from feedrate.measure.examined import (
    Begun,
    Broken,
    Handles,
    Items,
    Loop,
    Objects,
    Part,
    Setup,
    Starts,
    Untried,
)
from feedrate.measure.examining import starting
from feedrate.measure.examining.alarm import (
    Alarm,
    TooLong,
    kill_workers,
    killing_workers_after,
)
from feedrate.measure.examining.correctness import NO_FORK, CorrectnessTrials
from feedrate.measure.examining.culprit import STALL_SECONDS, find_culprit
from feedrate.measure.examining.handles import find_handles
from feedrate.measure.examining.indices import is_plain
from feedrate.measure.examining.items import read_items
from feedrate.measure.examining.looping import run_loop
from feedrate.measure.examining.objects import count_objects
from feedrate.measure.examining.pickling import try_pickling
from feedrate.measure.examining.probe import AVAILABLE, Told, Work, run_probe
from feedrate.measure.examining.speed import SpeedTrials
from feedrate.measure.examining.twins import replaced

Step = Callable[[Any], object]

_ITEMS_SECONDS, _ITEMS_SHARE = 2.0, 0.08
_LOOP_SECONDS, _LOOP_SHARE = 3.0, 0.12
_PATIENCE_SECONDS, _PATIENCE_SHARE = 15.0, 0.4
_PROBE_GRACE = 4.0
_END_SECONDS = 2.0
"""What the ends of a trial's workers may take."""
_LEAST_PATIENCE = 1.5
"""Seconds that a first batch is given at least, or the loader is not iterated."""
_SURE_SECONDS = 6.0
"""After how long without a batch, where there were some, a loop hangs, also with less patience."""
_RESERVE = 1.0
"""Seconds before the end after which nothing is begun."""


TIME_WAS_UP = "the time was up"


def _no_time(needs: float, left: float) -> str:
    if left <= 0:
        return TIME_WAS_UP
    return f"it would take about {needs:.0f} s, and {max(0.1, left):.1f} s were left"


class Examiner:
    """Tries one loader and tells what it found.

    Args:
        loader: a copy of the user's that was not iterated.
        step: one training step, or ``None``.
        setup: how the loader is made.
        tell: takes each part.
        until: when all has to be over, by `time.time`.
        budget: the seconds that all together may take.
        cpus: the CPUs on which this process began, () where that is not known.
        clock: returns the time of ``until``.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        step: Step | None,
        setup: Setup,
        tell: Callable[[Part], None],
        *,
        until: float,
        budget: float,
        cpus: tuple[int, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.loader, self.step, self.setup = loader, step, setup
        self.until, self.budget, self.cpus, self._clock = until, budget, cpus, clock
        self.items: Items | None = None
        self.loop: Loop | None = None
        self.handles = Handles()
        self.begun: Begun | None = None
        self.changes: dict[str, Any] = {}
        """Attributes of the dataset that a script changes between epochs, as they were before."""
        self._suspect: Told | None = None
        self._is_slow = False
        self._tell_part = tell

    def run(self, *, loop: Loop | None = None) -> None:
        """Try all; a ``loop`` that was measured already is not measured again."""
        self.tell(self.setup)
        self._look()
        self._read_items()
        if loop is not None:
            self.tell(loop)
        elif not self._iterate():
            self._find_culprit()
            return
        if self.setup.elastic:
            self.untried("trials with other workers", "feedrate's loader sets its workers itself")
            return
        if self.setup.unguarded and self.loader.num_workers == 0:
            self.untried("trials with workers", self.setup.unguarded)
        else:
            CorrectnessTrials(self).run()
        SpeedTrials(self).run()

    def run_after_failure(self) -> None:
        """Look for the item at fault after a script has failed with its loader."""
        self.tell(self.setup)
        self._look()
        self._read_items()
        self._find_culprit()

    # What all trials need

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.until - self._clock() - _RESERVE

    def tell(self, part: Part) -> None:
        """Keep a part that later trials need, and tell it."""
        if isinstance(part, Items):
            self.items = part
        elif isinstance(part, Loop):
            self.loop = part
        elif isinstance(part, Handles):
            self.handles = part
        elif isinstance(part, Begun):
            self.begun = part
        self._tell_part(part)

    def untried(self, what: str, why: str) -> None:
        """Tell what is not tried."""
        self.tell(Untried(what=what, why=why))

    def attempt(self, what: str, needs: float, work: Callable[[], Part | None]) -> Part | None:
        """Return what a trial in this process came to, and tell it; ``None`` where it failed."""
        limit = self.left()
        if limit < needs:
            self.untried(what, _no_time(needs, limit))
            return None
        part: Part | None = None
        try:
            with Alarm().armed(limit):
                part = work()
        except TooLong:
            kill_workers()
            self.untried(what, f"it took more than {limit:.1f} s")
        except Exception as error:
            words = one_line(f"{type(error).__name__}: {text_of(error)}")[:200]
            self.untried(what, f"it failed with {words}")
        self._end_workers()
        if part is not None:
            self.tell(part)
        return part

    def _end_workers(self) -> None:
        """Collect what is not used any more: its workers end with it, in time."""
        with killing_workers_after(min(_END_SECONDS, self.left())):
            gc.collect()

    def probe(self, what: str, seconds: float, work: Work, stall: float = math.inf) -> Told | None:
        """Return what a probe told; ``None`` where there was none."""
        if not AVAILABLE:
            self.untried(what, NO_FORK)
            return None
        limit = min(seconds, self.left())
        if limit < 0.2:
            self.untried(what, TIME_WAS_UP)
            return None
        told = run_probe(work, limit, stall)
        for part in told.parts:
            self.tell(part)
        return told

    # The parts

    def parts(self) -> list[tuple[str, Any]]:
        """Return what a worker is given, by name."""
        given: list[tuple[str, Any]] = [("dataset", self.loader.dataset)]
        if self.setup.collate:
            given.append(("collate_fn", self.loader.collate_fn))
        if self.loader.worker_init_fn is not None:
            given.append(("worker_init_fn", self.loader.worker_init_fn))
        return given

    def _look(self) -> None:
        self.tell(Handles(handles=find_handles(self.parts())))
        told = self.probe("pickling", 6.0, lambda tell, _: tell(try_pickling(self.parts())))
        if told is not None and told.end != "done":
            self.untried("pickling", f"its process {told.end} ({told.headline or 'no end'})")
        told = self.probe(
            "counting objects", 5.0, lambda tell, _: tell(count_objects(self.loader.dataset))
        )
        if told is not None and told.end == "hung":
            self.tell(Objects(count=0, bytes=0, whole=False))
        if is_plain(self.loader) and (self.setup.draws or 0) >= 1_000_000:
            self.probe(
                "the sampler",
                10.0,
                lambda tell, place: starting.cost_of_sampler(self.loader, tell, place),
            )

    def _read_items(self) -> None:
        seconds = min(_ITEMS_SECONDS, _ITEMS_SHARE * self.budget)
        told = self.probe(
            "items",
            3 * seconds + _PROBE_GRACE,
            lambda tell, place: read_items(self.loader, seconds, tell, place),
            stall=STALL_SECONDS,
        )
        if told is None or self.items is not None or told.end == "done":
            return
        self._suspect = told
        if told.end == "hung":
            self.untried("items", f"item {told.at} did not come within {told.stood:.1f} s")
        else:
            self.untried("items", f"item {told.at} failed ({told.headline})")

    def _iterate(self) -> bool:
        spawned = self.setup.facts.start_method in ("spawn", "forkserver")
        patience = (0.8 if spawned else 0.6) * self.left()
        if not spawned:
            patience = min(max(_PATIENCE_SECONDS, _PATIENCE_SHARE * self.budget), patience)
        if patience < _LEAST_PATIENCE:
            self.untried("iterating", TIME_WAS_UP)
            self._is_slow = True
            return False
        loop, broken = run_loop(
            replaced(self.loader),
            self.step,
            seconds=min(_LOOP_SECONDS, _LOOP_SHARE * self.budget),
            patience=lambda: min(patience, self.left()),
            facts=self.setup.facts,
        )
        self._end_workers()
        if loop is not None:
            self.tell(loop)
        if broken is not None:
            self._is_slow = self._is_only_slow(broken, patience)
            if self._is_slow:
                self.untried("iterating", f"a batch takes more than {broken.seconds:.0f} s")
                if broken.starting and spawned:
                    self.tell(Starts(own=broken.seconds, whole=False))
            else:
                self.tell(broken)
        return broken is None

    def _is_only_slow(self, broken: Broken, patience: float) -> bool:
        """Tell whether a batch did not come in time because all takes so long.

        What still computes before an epoch's first batch is only slow too: a start, or an index;
        and workers that are not forked may only be importing, on a machine that is busy.
        """
        if broken.error.kind != "timeout":
            return False
        if broken.seconds < 0.99 * patience and (broken.starting or broken.seconds < _SURE_SECONDS):
            return True  # it was not waited for any longer, as the time was up
        size = self.loader.batch_size or 1
        slow = self.items is not None and self.items.median * size > 0.5 * broken.seconds
        starts = self.setup.facts.start_method in ("spawn", "forkserver")
        return slow or (broken.starting and (broken.busy or starts))

    def _find_culprit(self) -> None:
        suspect = self._suspect
        if self._is_slow and (suspect is None or (suspect.end == "hung" and not suspect.is_stuck)):
            return
        if suspect is None and self.left() < 0.5:
            return
        median = self.items.median if self.items is not None else 0.0
        bad = find_culprit(self.loader, suspect, median, self.left())
        if bad is not None:
            self.tell(bad)
