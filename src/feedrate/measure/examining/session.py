"""Examining a script's loader: the script runs on it for a while, then its loader is tried."""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from feedrate.measure import wire
from feedrate.measure.batch import measure_size
from feedrate.measure.cpu import worker_cpu_seconds
from feedrate.measure.device_memory import most_on_device
from feedrate.measure.examined import Begun, Leaf, Loop
from feedrate.measure.examining.copies import WATCHED_STEP, CopyWatch
from feedrate.measure.examining.leaves import describe
from feedrate.measure.examining.running import make_examiner
from feedrate.measure.examining.small import copies_of, digests_of
from feedrate.measure.sessions import Session
from feedrate.measure.uses import Iteration, Use, pick_most_used, pick_trained

if TYPE_CHECKING:
    from feedrate.measure.hook import Hook

_SHARE = 0.15
_SECONDS = 4.0
_PATIENCE = 2.0
"""After how many times the seconds a script is taken to train without an optimizer."""
_MOST_BATCHES = 2000
_EPOCHS = 8
"""In so many the dataset's attributes are compared with those of the epoch before."""


@dataclass(slots=True)
class _Seen:
    """What a loader did in the script's own loop until now."""

    pristine: Any
    waits: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    items: int = 0
    batches: int = 0
    epoch_begun: float = 0.0
    epoch_items: int = 0
    epoch_batches: int = 0
    epochs: list[tuple[float, int, int]] = field(default_factory=list)
    first_at: float | None = None
    cpu: float | None = None
    size: tuple[int, int] = (0, 0)
    leaves: tuple[Leaf, ...] = ()
    copies: CopyWatch = field(default_factory=CopyWatch)
    was: tuple[dict[str, str], dict[str, Any]] | None = None
    changes: dict[str, Any] = field(default_factory=dict)


class ExamineSession(Session):
    """Lets the script train until its loop was seen for long enough, then examines the loader."""

    def __init__(self, send: Any, spec: wire.Examine, **options: Any) -> None:
        super().__init__(send, **options)
        self._spec = spec
        self._seconds = min(_SECONDS, _SHARE * spec.seconds)
        self._seen: dict[int, _Seen] = {}
        self._hook: Hook | None = None

    def attach(self, hook: Hook) -> None:
        """Take the hook, which must not watch what is tried."""
        self._hook = hook

    def concerns(self, use: Use) -> bool:
        """Any loader may be the one, unless a number was given."""
        return self._spec.loader is None or use.number == self._spec.loader

    def prepare(self, loader: Any, use: Use) -> tuple[str, ...]:
        """Keep a copy of the loader as it is before it is iterated."""
        if use.number not in self._seen:
            self._seen[use.number] = _Seen(copy.copy(loader))
        return ()

    def on_begin(self, iteration: Iteration) -> None:
        """Begin another epoch."""
        seen = self._seen[iteration.use.number]
        seen.copies.__exit__()  # of an epoch that was left in the middle
        self._compare(seen)
        seen.begins.append(iteration.begin_seconds)
        seen.epoch_begun = self.clock() - iteration.begin_seconds
        seen.epoch_items = seen.epoch_batches = 0

    @staticmethod
    def _compare(seen: _Seen) -> None:
        """Note which attributes of the dataset are not as they were in the epoch before."""
        if not getattr(seen.pristine, "persistent_workers", False) or len(seen.begins) >= _EPOCHS:
            return
        dataset = seen.pristine.dataset
        now = digests_of(dataset)
        if seen.was is not None:
            digests, values = seen.was
            for name, each in now.items():
                if name in values and each != digests.get(name, each):
                    seen.changes[name] = values[name]
        seen.was = now, copies_of(dataset)

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:
        """Count the batch."""
        seen = self._seen[iteration.use.number]
        if seen.epoch_batches == 0 and seen.begins:
            seen.begins[-1] += wait
        if seen.first_at is not None and len(seen.waits) < _MOST_BATCHES:
            seen.waits.append(wait)
            seen.items += items
        seen.epoch_items += items
        seen.epoch_batches += 1
        seen.batches += 1
        others = any(each.copies.is_watching for each in self._seen.values())
        if seen.batches == WATCHED_STEP and not others:
            seen.copies.__enter__()

    def take_over(self, iteration: Iteration, iterator: Any, batch: Any) -> None:  # noqa: ARG002
        """Describe the first batch."""
        seen = self._seen[iteration.use.number]
        if seen.first_at is None:
            seen.size, seen.leaves = measure_size(batch), describe(batch, "batch")
            seen.cpu = worker_cpu_seconds()
            seen.first_at = self.clock()

    def on_step(self, iteration: Iteration, seconds: float | None) -> None:
        """Count the step; examine the loader once enough was seen."""
        seen = self._seen[iteration.use.number]
        seen.copies.__exit__()
        if seconds is not None and len(seen.steps) < _MOST_BATCHES:
            seen.steps.append(seconds)
        if seen.first_at is None or not self.concerns(iteration.use):
            return
        lasted = self.clock() - seen.first_at
        uses = [use for use in self.uses.all if self.concerns(use)]
        trained = pick_trained(uses)
        enough = lasted >= self._seconds and trained is iteration.use
        waited = lasted >= _PATIENCE * self._seconds and trained is None
        if enough or (waited and pick_most_used(uses) is iteration.use) or self._is_late():
            self._examine(iteration.use)
            self.complete(iteration.use.number)

    def on_end(self, iteration: Iteration, wait: float) -> None:  # noqa: ARG002
        """Count the epoch."""
        seen = self._seen[iteration.use.number]
        seen.copies.__exit__()
        lasted = self.clock() - seen.epoch_begun
        seen.epochs.append((lasted, seen.epoch_items, seen.epoch_batches))

    def tell_rest(self) -> int | None:
        """Examine the loader of a script that has ended before enough was seen."""
        uses = [use for use in self.uses.all if self.concerns(use)]
        use = pick_trained(uses) or pick_most_used(uses) or next(iter(uses), None)
        if use is None:
            return None
        failed = sys.exc_info()[1] is not None
        self._examine(use, failed=failed)
        return use.number

    def _is_late(self) -> bool:
        return time.time() > self._spec.until - 0.6 * self._spec.seconds

    def _examine(self, use: Use, *, failed: bool = False) -> None:
        if self._hook is not None:
            self._hook.is_installed = False
        try:
            self._try_all(use, failed=failed)
        finally:
            if self._hook is not None:
                self._hook.is_installed = True

    def _try_all(self, use: Use, *, failed: bool) -> None:
        seen = self._seen[use.number]
        for each in self._seen.values():
            each.copies.__exit__()  # of a loop that was left in the middle
        examiner = make_examiner(self._spec, self.send, seen.pristine, None)
        if use.epochs > 1:
            examiner.tell(
                Begun(
                    times=use.epochs,
                    batches=use.batches,
                    seconds=sum(seen.begins) / max(1, len(seen.begins)),
                )
            )
        examiner.changes = seen.changes
        loop = self._loop(seen)
        if failed:
            examiner.run_after_failure()
        elif loop is None:
            examiner.run()
        else:
            examiner.run(loop=loop)

    def _loop(self, seen: _Seen) -> Loop | None:
        if seen.first_at is None:
            return None
        cpu = worker_cpu_seconds()
        return Loop(
            startup=seen.begins[0] if seen.begins else 0.0,
            batches=max(0, seen.batches - 1),
            items=seen.items,
            seconds=max(1e-9, sum(seen.waits) + sum(seen.steps)),
            waits=tuple(seen.waits),
            steps=tuple(seen.steps),
            epoch_seconds=tuple(lasted for lasted, _, _ in seen.epochs),
            epoch_items=tuple(items for _, items, _ in seen.epochs),
            epoch_batches=tuple(batches for _, _, batches in seen.epochs),
            batch_bytes=seen.size[0],
            batch_tensors=seen.size[1],
            leaves=seen.leaves,
            has_step=True,
            worker_cpu_share=_share(seen, cpu, self.clock()),
            later_startup=seen.begins[1] if len(seen.begins) > 1 else None,
            device_bytes=most_on_device(),
            copies=seen.copies.told(),
        )


def _share(seen: _Seen, cpu: float | None, now: float) -> float | None:
    """Return the CPU seconds that workers took, for each second of each of them."""
    if cpu is None or seen.cpu is None or seen.first_at is None:
        return None
    count = max(1, int(getattr(seen.pristine, "num_workers", 0)))
    return max(0.0, cpu - seen.cpu) / max(1e-9, now - seen.first_at) / count
