"""A session with given settings: the loader as torch runs it, measured in steady state."""

from __future__ import annotations

from typing import Any

from feedrate.errors import TargetError
from feedrate.measure import wire
from feedrate.measure.configure import configure
from feedrate.measure.cutter import Cutter
from feedrate.measure.guard import missing_guard
from feedrate.measure.sessions import Session
from feedrate.measure.uses import Iteration, Use
from feedrate.settings import LoaderSettings

_PATIENCE = 3.0
"""How many times the window's seconds a target may go on after it, to show how long an epoch is."""


class StaticSession(Session):
    """Sets the settings on the loader, each time that it is made, and measures one window."""

    def __init__(
        self, send: Any, spec: wire.Static, settings: LoaderSettings | None, **options: Any
    ) -> None:
        super().__init__(send, **options)
        self._spec = spec
        self._settings = settings
        self._cutter: Cutter | None = None
        self._latest: Iteration | None = None
        self._measured_at: float | None = None

    def concerns(self, use: Use) -> bool:
        """The loader with the number that was given."""
        return use.number == self._spec.loader

    def prepare(self, loader: Any, use: Use) -> tuple[str, ...]:
        """Set the settings."""
        if self._settings is None or not self.concerns(use):
            return ()
        if self._settings.num_workers and (unguarded := missing_guard(loader)):
            self.refuse("exception", unguarded)
        try:
            return configure(loader, self._settings)
        except TargetError as error:
            self.refuse("exception", str(error))
            raise  # never: it ends the target

    def on_begin(self, iteration: Iteration) -> None:
        """Begin another iteration of the window."""
        if self.concerns(iteration.use):
            if self._cutter is None:
                self._cutter = self.make_cutter(
                    iteration, self._spec.seconds, needs_training=self._spec.trained
                )
            self._cutter.begins(iteration.begin_seconds)

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:
        """Count the batch."""
        if self._cutter is None or not self.concerns(iteration.use):
            return
        if self._measured_at is not None:
            self._complete_once_seen(iteration)
        else:
            self._cutter.takes(wait, items)

    def on_step(self, iteration: Iteration, seconds: float | None) -> None:
        """Count the step; see whether the window is complete."""
        if self._cutter is not None and self.concerns(iteration.use):
            self._latest = iteration
            self._cutter.steps(seconds)
            self._complete_if_full(iteration)

    def on_optimizer_step(self, iteration: Iteration) -> None:
        """Count the iteration as training."""
        if self._cutter is not None and self.concerns(iteration.use):
            self._cutter.trains()

    def on_end(self, iteration: Iteration, wait: float) -> None:
        """End an iteration of the window."""
        if self._cutter is not None and self.concerns(iteration.use):
            self._latest = iteration
            self._cutter.ends(wait)
            self._complete_if_full(iteration)

    def on_leave(self, use: Use) -> None:
        """End the iteration before, should it not have come to its end."""
        if self._cutter is not None and self._latest is not None and self.concerns(use):
            self._cutter.ends(0.0)
            self._complete_if_full(self._latest)

    def _complete_if_full(self, iteration: Iteration) -> None:
        assert self._cutter is not None
        if self._measured_at is None and self._cutter.is_full:
            self.close_window(self._cutter, iteration, "static")
            self._measured_at = self.clock()
        if self._measured_at is not None:
            self._complete_once_seen(iteration)

    def _complete_once_seen(self, iteration: Iteration) -> None:
        """Let the target go on, for some time, until it shows how many batches an epoch has."""
        use, usual = iteration.use, self._spec.epoch_batches
        assert self._measured_at is not None
        shown = (
            usual is None
            or use.facts is None
            or not use.facts.iterable
            or use.ended_batches is not None
            or use.most_batches > usual + iteration.level
            or self.clock() - self._measured_at >= _PATIENCE * self._spec.seconds
        )
        if shown:
            self.complete(self._spec.loader)

    def tell_rest(self) -> int | None:
        """Send what there is of the window, unless it was sent."""
        if self._measured_at is not None:
            return self._spec.loader
        if self._cutter is None or self._latest is None:
            return None
        window = self.close_window(self._cutter, self._latest, "static")
        return None if window is None else self._spec.loader
