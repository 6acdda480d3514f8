"""The first session: which loader the target trains from, how it does now, and the ceiling.

The loader is not touched. Once its own window is complete, the loop gets one of its batches again
and again: that is the fastest that any loader could feed it.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import torch

from feedrate.loader.torch_private import end_workers
from feedrate.measure import wire
from feedrate.measure.cached import CachedBatch
from feedrate.measure.cutter import Cutter
from feedrate.measure.sessions import Session
from feedrate.measure.uses import Iteration, Use, pick_most_used, pick_trained

_CACHED_SHARE = 0.5
"""The ceiling needs less time than the loader: its steps alone vary."""
_PATIENCE, _PATIENCE_WITH_OPTIMIZER = 2.0, 20.0
"""After how many times the window's seconds a script is taken to train without an optimizer. One
that has made an optimizer may test its model first."""
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class _Cutters:
    """One loader's window, from iterations with an optimizer's steps alone, and from all."""

    training: Cutter
    any: Cutter

    def both(self) -> tuple[Cutter, Cutter]:
        return self.training, self.any


class LookSession(Session):
    """Measures the training loader as it is (phase "own"), then fed by one batch ("cached").

    The time that it takes to copy a cached batch is left out; it is taken only where the step
    changes its batch. Epochs keep their length, ``len()`` is the loader's.
    """

    def __init__(self, send: Any, spec: wire.Look, **options: Any) -> None:
        super().__init__(send, **options)
        self._spec = spec
        self._cutters: dict[int, _Cutters] = {}
        self._own: Cutter | None = None
        self._chosen: Use | None = None
        self._chosen_trains = False
        self._cached: CachedBatch | None = None
        self._ceiling: Cutter | None = None
        self._items = 0
        self._first_batch_at: float | None = None
        self._looked_at = float("-inf")
        self._has_optimizer = False
        self._latest: dict[int, Iteration] = {}

    def concerns(self, use: Use) -> bool:
        """Any loader may be the one, unless a number was given."""
        return self._spec.loader is None or use.number == self._spec.loader

    # The loader as it is

    def on_begin(self, iteration: Iteration) -> None:
        """Begin another iteration of one of the windows."""
        if self._chosen is None:
            number = iteration.use.number
            if number not in self._cutters:
                self._cutters[number] = _Cutters(
                    self.make_cutter(iteration, self._spec.seconds, needs_training=True),
                    self.make_cutter(iteration, self._spec.seconds, needs_training=False),
                )
            for cutter in self._cutters[number].both():
                cutter.begins(iteration.begin_seconds)
        elif self._ceiling is not None and iteration.use is self._chosen:
            self._ceiling.begins(0.0)

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:
        """Count the batch."""
        self._items = items
        if self._first_batch_at is None:
            self._first_batch_at = self.clock()
        if self._chosen is None:
            for cutter in self._cutters[iteration.use.number].both():
                cutter.takes(wait, items)

    def on_step(self, iteration: Iteration, seconds: float | None) -> None:
        """Count the step; see whether a window is complete."""
        if self._chosen is None:
            for cutter in self._cutters[iteration.use.number].both():
                cutter.steps(seconds)
            self._latest[iteration.use.number] = iteration
            self._choose(iteration)
        elif self._ceiling is not None and iteration.use is self._chosen:
            self._ceiling.steps(seconds)
            if self._ceiling.is_full:
                self.close_window(self._ceiling, iteration, "cached")
                self.complete(self._chosen.number)

    def on_optimizer_step(self, iteration: Iteration) -> None:
        """Count the iteration as training."""
        if self._chosen is None:
            self._cutters[iteration.use.number].training.trains()
        elif self._ceiling is not None and iteration.use is self._chosen:
            self._ceiling.trains()

    def on_end(self, iteration: Iteration, wait: float) -> None:
        """End one of the windows' iterations."""
        if self._chosen is None:
            for cutter in self._cutters[iteration.use.number].both():
                cutter.ends(wait)
            self._latest[iteration.use.number] = iteration
            self._choose(iteration)
        elif self._ceiling is not None and iteration.use is self._chosen:
            self._ceiling.ends(0.0)

    def on_leave(self, use: Use) -> None:
        """End the iteration before, should it not have come to its end."""
        latest = self._latest.get(use.number)
        if latest is not None and self._chosen is None:
            for cutter in self._cutters[use.number].both():
                cutter.ends(0.0)
            self._choose(latest)

    def _choose(self, iteration: Iteration) -> None:
        use = iteration.use
        if not self.concerns(use):
            return
        cutters = self._cutters[use.number]
        uses = [each for each in self.uses.all if self.concerns(each)]
        trained = pick_trained(uses)
        if trained is not None:
            if trained is use and cutters.training.is_full:
                self._settle_on(iteration, cutters.training, trains=True)
        elif cutters.any.is_full and not self._may_train_yet() and pick_most_used(uses) is use:
            self._settle_on(iteration, cutters.any, trains=False)

    def _may_train_yet(self) -> bool:
        """Tell whether to wait for an optimizer's first step."""
        if not self._is_script or pick_trained(self.uses.all) is not None:
            return False  # another loader was asked for than the one that trains
        now = self.clock()
        waited = now - (now if self._first_batch_at is None else self._first_batch_at)
        if waited < _PATIENCE * self._spec.seconds:
            return True
        if not self._has_optimizer and now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            kind = torch.optim.Optimizer
            self._has_optimizer = any(issubclass(type(each), kind) for each in gc.get_objects())
        return self._has_optimizer and waited < _PATIENCE_WITH_OPTIMIZER * self._spec.seconds

    def _settle_on(self, iteration: Iteration, cutter: Cutter, *, trains: bool) -> None:
        self._chosen, self._chosen_trains = iteration.use, trains
        self.close_window(cutter, iteration, "own")

    # The loader replaced by one batch

    def is_cached(self, use: Use) -> bool:
        """Tell whether the loader gives the cached batch now."""
        return self._cached is not None and use is self._chosen

    def take_over(self, iteration: Iteration, iterator: Any, batch: Any) -> None:
        """Keep the first batch that comes after the own window, and end the workers."""
        if iteration.use is not self._chosen or self._cached is not None:
            return
        self._cached = CachedBatch(batch)
        end_workers(iterator)
        self._ceiling = Cutter(
            _CACHED_SHARE * self._spec.seconds,
            round_batches=1,
            needs_training=self._chosen_trains,
            cpu=self.read_cpu,
            whole_epochs=False,
        )
        self._ceiling.begins(0.0)
        if self._chosen_trains and iteration.optimizer_steps:
            self._ceiling.trains()

    def next_cached(self, iteration: Iteration) -> Any:
        """Return the cached batch, as often as an epoch has batches."""
        assert self._cached is not None
        assert self._ceiling is not None
        if iteration.batches == self._length(iteration):
            self.ended(iteration, 0.0)
            raise StopIteration
        batch = self._cached.give()
        self.given(iteration, batch, 0.0)
        self._ceiling.takes(0.0, self._items)
        return batch

    def _length(self, iteration: Iteration) -> int | None:
        """Return how many batches an epoch has, ``None`` if it may go on without an end."""
        use = iteration.use
        if iteration.is_endless:
            return None
        if use.epoch_batches is not None:
            return use.epoch_batches
        return use.facts.length if use.facts is not None else None

    # The end

    def tell_rest(self) -> int | None:
        """Send what there is of the windows."""
        if self._chosen is not None:
            iteration = self.current
            if self._ceiling is not None and iteration is not None:
                self.close_window(self._ceiling, iteration, "cached")
            return self._chosen.number
        uses = [use for use in self.uses.all if self.concerns(use)]
        use = pick_trained(uses)
        trains = use is not None
        use = use or pick_most_used(uses)
        if use is None:
            return None
        cutters, iteration = self._cutters[use.number], self._latest.get(use.number)
        if iteration is None:
            return None
        cutter = cutters.training if trains else cutters.any
        window = self.close_window(cutter, iteration, "own")
        return None if window is None else use.number
