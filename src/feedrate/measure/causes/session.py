"""The session of the second pass: a target's own loop goes on while one process is inspected."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from feedrate.errors import TargetError
from feedrate.loader.torch_private import set_aside_iterator, set_checked_attribute
from feedrate.measure.causes.finding import longest, worker_items
from feedrate.measure.causes.in_worker import WorkerProbe, probe_worker
from feedrate.measure.causes.inspecting import Inspecting, make_inspector
from feedrate.measure.causes.inspection import Caused, Causes, Inspection
from feedrate.measure.configure import configure
from feedrate.measure.sessions import Session
from feedrate.measure.uses import Iteration, Use, pick_most_used, pick_trained
from feedrate.settings import LoaderSettings

MAIN = "main"
_ASK_SECONDS = 0.2
"""How often a worker's answer is looked for."""


class CausesSession(Session):
    """Inspects the main process after the steps of the training loader, or one of its workers.

    Without a loader's number the one counts that is iterated first.
    """

    def __init__(
        self, send: Any, spec: Causes, settings: LoaderSettings | None, **options: Any
    ) -> None:
        super().__init__(send, **options)
        self._spec = spec
        self._settings = settings
        self._inspector: Inspecting | None = None
        self._probe: WorkerProbe | None = None
        self._kept: weakref.ref[Any] | None = None
        self._seen: Inspection | None = None
        self._items = 0
        self._begun_at: float | None = None
        self._asked_at = 0.0
        self._has_told = False

    def concerns(self, use: Use) -> bool:
        """The loader of the number that was given, else the first."""
        return use.number == (self._spec.loader or 0)

    def prepare(self, loader: Any, use: Use) -> tuple[str, ...]:
        """Set the settings, where some were given, and have the worker inspect itself."""
        if not self.concerns(use):
            return ()
        left_out: tuple[str, ...] = ()
        if self._settings is not None:
            try:
                left_out = configure(loader, self._settings)
            except TargetError as error:
                self.refuse("exception", str(error))
        if self._spec.process != MAIN and loader.num_workers > 0:
            self._look_into(loader)
        return left_out

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:
        """Count the items; see whether the worker has told all."""
        del wait
        if not self.concerns(iteration.use):
            return
        self._items = items
        now = self.clock()
        if self._begun_at is None:
            self._begun_at = now
        if self._probe is not None and now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            if self._probe.is_over or (self._seen is not None and self._seen.is_complete):
                self._end(iteration)
        if now - self._begun_at >= longest(self._spec.seconds):
            self._end(iteration)

    def on_step(self, iteration: Iteration, seconds: float | None) -> None:
        """Have the main process looked at."""
        del seconds
        if self._spec.process != MAIN or not self.concerns(iteration.use):
            return
        if self._inspector is None:
            dataset = getattr(iteration.loader(), "dataset", None)
            self._inspector = make_inspector(
                MAIN,
                self._spec.seconds,
                named={"dataset": dataset} if dataset is not None else {},
                expected=self._spec.expected,
                memray=self._spec.memray,
                clock=self.clock,
            )
        self._inspector.passed(self._items)
        if self._inspector.is_over:
            self._end(iteration)

    def on_end(self, iteration: Iteration, wait: float) -> None:
        """Have the main process looked at where epochs can be compared."""
        del wait
        if self._inspector is not None and self.concerns(iteration.use):
            self._inspector.epoch_ended()
            if self._inspector.is_over:
                self._end(iteration)

    def tell_rest(self) -> int | None:
        """Say what was seen until the target ended; return which loader it was."""
        uses = [use for use in self.uses.all if self.concerns(use)]
        use = pick_trained(uses) or pick_most_used(uses)
        self._tell()
        return use.number if use is not None and use.batches else None

    def _look_into(self, loader: Any) -> None:
        """Have a worker of the loader inspect itself, and no longer one of the loader before."""
        self._let_go()
        self._probe = probe_worker(
            loader,
            worker=int(self._spec.process.removeprefix("worker ")),
            seconds=self._spec.seconds,
            epoch_items=worker_items(loader),
            expected=self._spec.expected,
            memray=self._spec.memray,
        )
        if not loader.persistent_workers:
            # Workers that live for a short epoch end before what grows in them can be told.
            set_checked_attribute(loader, "persistent_workers", True)
            self._kept = weakref.ref(loader)

    def _let_go(self) -> None:
        """End the probe, and the workers that were kept for it; take what was seen, if it is most.

        A loop that is in the midst of the loader goes on.
        """
        loader = self._kept() if self._kept is not None else None
        if loader is not None:
            set_checked_attribute(loader, "persistent_workers", False)
            set_aside_iterator(loader)
        if self._probe is not None:
            told = [each for each in (self._seen, self._probe.inspection()) if each is not None]
            self._seen = max(told, key=lambda each: (each.is_complete, each.items))
            self._probe.close()
        self._kept = self._probe = None

    def _end(self, iteration: Iteration) -> None:
        self._tell()
        self.complete(iteration.use.number)

    def _tell(self) -> None:
        if self._has_told:
            return
        self._has_told = True
        self._let_go()
        found = self._found()
        if found is not None:
            tell: Callable[[Any], None] = self.send
            tell(Caused(inspection=found))

    def _found(self) -> Inspection | None:
        if self._inspector is not None:
            self._inspector.close()
            return self._inspector.inspection
        return self._seen
