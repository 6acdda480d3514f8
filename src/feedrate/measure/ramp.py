"""A session in which the loader's workers grow as with ``num_workers="auto"``."""

from __future__ import annotations

import math
from typing import Any

from feedrate.errors import TargetError
from feedrate.loader.adopt import adopt
from feedrate.loader.dataloader import obstacle
from feedrate.loader.kept_workers import before_epoch, keep_workers
from feedrate.loader.levels import Decision
from feedrate.loader.levels import Window as Seen
from feedrate.loader.pilot import Pilot
from feedrate.measure import wire
from feedrate.measure.configure import TORCH_PREFETCH_FACTOR
from feedrate.measure.guard import missing_guard
from feedrate.measure.sessions import Session
from feedrate.measure.target import is_iterable_dataset
from feedrate.measure.uses import Iteration, Use
from feedrate.records import Choice, Window


class RampSession(Session):
    """Makes the loader elastic and steers it until the pilot has settled, or the time is up.

    Batches come as from torch's own workers, so that what is measured holds for them.
    """

    def __init__(self, send: Any, spec: wire.Ramp, **options: Any) -> None:
        super().__init__(send, **options)
        self._spec = spec
        self._pilot: Pilot | None = None
        self._first_at: float | None = None
        self._items = 0
        self._counted = 0
        self._windows = 0
        self._told = 0

    def concerns(self, use: Use) -> bool:
        """The loader with the number that was given."""
        return use.number == self._spec.loader

    def prepare(self, loader: Any, use: Use) -> tuple[str, ...]:
        """Make the loader elastic, with the workers that the pilot has come to."""
        if not self.concerns(use):
            return ()
        if unguarded := missing_guard(loader):
            self.refuse("exception", unguarded)
        reason = self._adopt(loader)
        if reason is not None:
            self.refuse("fixed_workers", reason)
        own = loader.prefetch_factor or TORCH_PREFETCH_FACTOR
        if self._pilot is None:
            self._pilot = Pilot(
                most=self._spec.most_workers,
                prefetch=own,
                tolerance=self._spec.tolerance,
                ram_bytes=self._spec.ram_bytes,
                shm_bytes=self._spec.shm_bytes,
                on_window=self._on_window,
            )
        controller = self._pilot.controller
        keep_workers(loader)
        loader.num_workers = controller.level
        loader.prefetch_factor = controller.prefetch
        vars(loader)["pilot"] = self._pilot
        return ()

    def _adopt(self, loader: Any) -> str | None:
        """Return why the workers cannot come and go; ``None`` if they can."""
        if is_iterable_dataset(loader):
            return (
                "its IterableDataset divides the items by the number of workers it starts with, so "
                "each number of workers needs a run of its own"
            )
        if why := obstacle():
            return f"each number of workers needs a run of its own, since {why}"
        try:
            adopt(loader, transport="torch", on_worker_death="raise")
        except TargetError as error:
            return str(error)
        return None

    def begins(self, use: Use, loader: Any) -> Iteration:
        """Return a new iteration, with the workers of the last one where nothing is against it."""
        before_epoch(loader)
        return super().begins(use, loader)

    def on_begin(self, iteration: Iteration) -> None:
        """Steer only where an optimizer steps, if one does at all."""
        if self._pilot is not None and self.concerns(iteration.use):
            self._pilot.paused = self._spec.trained

    def on_optimizer_step(self, iteration: Iteration) -> None:
        """Steer from here on."""
        if self._pilot is not None and self.concerns(iteration.use):
            self._pilot.paused = False

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:  # noqa: ARG002
        """Count the batch; see whether the time is up."""
        if self._pilot is None or not self.concerns(iteration.use):
            return
        now = self.clock()
        self._items += items
        self._counted += 1
        if self._first_at is None:
            self._first_at = now
        if self._pilot.controller.settled or now - self._first_at >= self._spec.seconds:
            self._tell_choices()
            self.complete(self._spec.loader)

    def _on_window(self, seen: Seen) -> None:
        self._windows += 1
        self.send(wire.WindowDone(window=self._record(seen)))
        self._tell_choices()

    def _record(self, seen: Seen) -> Window:
        items = self._items / self._counted if self._counted else 1.0
        waited, stepped = seen.wait * seen.batches, seen.step * seen.batches
        return Window(
            level=seen.level,
            batches=seen.batches,
            items=round(items * seen.batches),
            seconds=waited + stepped,
            phase="ramp",
            wait_seconds=waited,
            step_seconds=stepped,
            prefetch=seen.prefetch,
            fetch_seconds=seen.fetch,
            worker_cpu_seconds=seen.worker_cpu,
            main_cpu_seconds=seen.main_cpu,
            fetch_variation=seen.fetch_variation if math.isfinite(seen.fetch_variation) else None,
        )

    def _tell_choices(self) -> None:
        """Send the decisions that have not been sent."""
        history: list[Decision] = self._pilot.history if self._pilot is not None else []
        for decision in history[self._told :]:
            choice = Choice(
                level=decision.level, prefetch=decision.prefetch, reason=decision.reason
            )
            self.send(wire.Chosen(choice=choice))
        self._told = len(history)

    def tell_rest(self) -> int | None:
        """Send the last decisions; windows were sent as they ended."""
        self._tell_choices()
        return self._spec.loader if self._windows else None
