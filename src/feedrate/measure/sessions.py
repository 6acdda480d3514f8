"""What is watched while a target's own loop runs: its loaders, their batches, its optimizers.

`Session` keeps the account that all sessions need; `feedrate.measure.look`, ``ramp`` and ``static``
say what is measured and when it is enough. `feedrate.measure.hook` tells what happens.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from feedrate.measure import wire
from feedrate.measure.batch import item_counter
from feedrate.measure.configure import add_batch
from feedrate.measure.cpu import worker_cpu_seconds
from feedrate.measure.cutter import CpuSeconds, Cutter
from feedrate.measure.loop import PROGRESS_SECONDS
from feedrate.measure.readiness import make_ready, read_script_loader, wait_for_cuda
from feedrate.measure.unmeasured import describe_unmeasured
from feedrate.measure.uses import Iteration, Use, Uses
from feedrate.records import DevicePeaks, ErrorKind, RunError, Window, WindowPhase

Send = Callable[[wire.Message], None]


class Enough(BaseException):
    """Ends the target once all is measured; no error, so ``except Exception`` lets it through."""


class Session:
    """The account of one child; subclasses measure.

    Args:
        send: takes the messages.
        is_script: the target is a script, of which everything is learnt on the way. A factory's
            loader and step are known.
        synchronize: waits for the accelerator.
        started: the reading of the clock at which the target was started; now if left out.
        clock: returns seconds; it never goes back.
    """

    def __init__(
        self,
        send: Send,
        *,
        is_script: bool = True,
        synchronize: Callable[[], None] | None = None,
        started: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.send = send
        self.clock = clock
        self.uses = Uses()
        self.is_over = False
        self.batches = 0
        self.current: Iteration | None = None
        self._is_script = is_script
        self._synchronize = synchronize or wait_for_cuda
        self._is_ready = not is_script
        self._started = clock() if started is None else started
        self._reported = float("-inf")
        self.begun_count = 0
        self._since_step: weakref.WeakSet[Iteration] = weakref.WeakSet()
        self._stepping: weakref.WeakSet[Iteration] = weakref.WeakSet()

    # What subclasses say

    def concerns(self, use: Use) -> bool:
        """Tell whether a loader is the one that is asked for."""
        raise NotImplementedError

    def prepare(self, loader: Any, use: Use) -> tuple[str, ...]:  # noqa: ARG002
        """Change a loader that is about to be iterated for the first time; return what could not.

        Raises:
            Enough: it cannot be measured, and that was said.
        """
        return ()

    def on_begin(self, iteration: Iteration) -> None:
        """Take note that an iteration has begun."""

    def on_step(self, iteration: Iteration, seconds: float | None) -> None:
        """Take note that a batch's step has ended; ``None`` where it is not known how long."""

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:
        """Take note of a batch."""

    def on_end(self, iteration: Iteration, wait: float) -> None:
        """Take note that an iteration has come to its end."""

    def on_leave(self, use: Use) -> None:
        """Take note that another iteration is about to begin: the one before may not have ended."""

    def on_optimizer_step(self, iteration: Iteration) -> None:
        """Take note that an optimizer steps between an iteration's batches."""

    def is_cached(self, use: Use) -> bool:  # noqa: ARG002
        """Tell whether a loader is to be replaced by one batch of it."""
        return False

    def take_over(self, iteration: Iteration, iterator: Any, batch: Any) -> None:
        """Take note of a batch as it is and of what made it."""

    def next_cached(self, iteration: Iteration) -> Any:
        """Return a batch in place of the loader's.

        Raises:
            StopIteration: an epoch has no more.
        """
        raise NotImplementedError

    def tell_rest(self) -> int | None:
        """Send the windows that are not complete; return the number of the measured loader."""
        raise NotImplementedError

    def device_peaks(self) -> DevicePeaks | None:
        """Return the highest figures of the device, where they were looked at."""
        return None

    # What the hook tells

    def seen(self, loader: Any) -> Use:
        """Return which loader this is, before it is iterated; prepare it if it is a new one."""
        use, is_new = self.uses.of(loader)
        if is_new:
            left_out = self.prepare(loader, use)
            if use.facts is None:
                use.facts = read_script_loader(loader, left_out)
            if not self._is_ready and self.concerns(use):
                self._is_ready = True
                self.send(make_ready(self.clock() - self._started, use.facts))
        return use

    def begins(self, use: Use, loader: Any) -> Iteration:
        """Return a new iteration, whose ``iter()`` comes now."""
        self.on_leave(use)
        self.begun_count += 1
        iteration = Iteration(use, loader)
        iteration.order = self.begun_count
        return iteration

    def begun(self, iteration: Iteration, seconds: float) -> None:
        """``iter()`` has returned after so long."""
        iteration.use.epochs += 1
        iteration.begin_seconds = seconds
        iteration.use.wait_seconds += seconds
        self.on_begin(iteration)

    def asked(self, iteration: Iteration, now: float) -> None:
        """The loop asks for a batch."""
        iteration.use.asked += 1
        given_at, iteration.given_at = iteration.given_at, None
        if iteration.has_ended or given_at is None:
            return
        was_begun, iteration.other_was_begun = (
            iteration.other_was_begun,
            self.begun_count > iteration.begun_then,
        )
        # A loader that is begun meanwhile is a validation, and no part of a step; unless every
        # step begins one.
        is_step = not iteration.other_was_begun or was_begun
        self.on_step(iteration, now - given_at if is_step else None)

    def given(self, iteration: Iteration, batch: Any, wait: float) -> None:
        """The loop gets a batch, after so long."""
        use = iteration.use
        if iteration.count is None:
            iteration.count = item_counter(batch, iteration.loader())
            if use.facts is not None and not use.facts.batch_bytes:
                use.facts = add_batch(use.facts, batch)
            if use.startup_seconds is None:
                use.startup_seconds = iteration.begin_seconds + wait
        iteration.batches += 1
        iteration.begun_then = self.begun_count
        use.batches += 1
        if use.facts is not None and use.facts.length == iteration.batches:
            self._is_through(iteration)  # not everybody asks for one more
        if not self.is_cached(use):
            use.most_batches = max(use.most_batches, iteration.batches)
        use.wait_seconds += wait
        self.batches += 1
        self._since_step.add(iteration)
        self.current = iteration
        self.on_batch(iteration, wait, iteration.count(batch))
        self._report(iteration)

    def ended(self, iteration: Iteration, wait: float) -> None:
        """The loop learns that there are no more batches."""
        if iteration.has_ended:
            return
        iteration.has_ended = True
        self._is_through(iteration)
        if not self.is_cached(iteration.use):
            iteration.use.ended_batches = iteration.batches
        iteration.use.wait_seconds += wait
        self.on_end(iteration, wait)

    @staticmethod
    def _is_through(iteration: Iteration) -> None:
        if not iteration.is_complete:
            iteration.is_complete = True
            iteration.use.complete_epochs += 1
        iteration.use.epoch_batches = iteration.batches

    def optimizer_stepped(self) -> None:
        """An optimizer has stepped, for all iterations that gave a batch since the last time."""
        if len(self._since_step):
            self._stepping, self._since_step = self._since_step, weakref.WeakSet()
        for iteration in list(self._stepping):
            # one that has given all it has may be kept, and does not step when another gives more
            is_over = iteration.is_complete and iteration is not self.current
            if not (iteration.has_ended or is_over):
                iteration.optimizer_steps += 1
                iteration.use.optimizer_steps += 1
                self.on_optimizer_step(iteration)

    # The end

    def complete(self, number: int | None) -> None:
        """Say what was learnt and end the target.

        Raises:
            Enough: always.
        """
        self._tell_uses(number)
        self._finish(wire.Finished(device=self.device_peaks()))

    def refuse(self, kind: ErrorKind, sentence: str) -> None:
        """Say that the loader cannot be measured so, and end the target.

        Raises:
            Enough: always.
        """
        self._tell_uses(None)
        self._finish(wire.Failed(error=RunError(kind=kind, sentence=sentence)))

    def _finish(self, message: wire.Message) -> None:
        self.is_over = True
        self.send(message)
        raise Enough

    def close(self) -> bool:
        """Say what was learnt of a target that ended by itself; tell whether that was anything."""
        if self.is_over:
            return True
        self.is_over = True
        number = self.tell_rest()
        self._tell_uses(number)
        return number is not None

    def explain_nothing(self) -> RunError:
        """Return why nothing could be measured on a target that ended by itself."""
        return describe_unmeasured(self.uses.all, self.concerns)

    def _tell_uses(self, number: int | None) -> None:
        records = tuple(record for use in self.uses.all if (record := use.record()) is not None)
        measured = next((use for use in self.uses.all if use.number == number), None)
        self.send(
            wire.Used(
                loaders=records,
                training_loader=number,
                startup_seconds=measured.startup_seconds if measured is not None else None,
            )
        )

    def _report(self, iteration: Iteration) -> None:
        now = self.clock()
        if iteration.batches == 1 or now - self._reported >= PROGRESS_SECONDS:
            self._reported = now
            self.send(wire.Progress(epoch=max(0, iteration.use.epochs - 1), batches=self.batches))

    # For subclasses

    def make_cutter(self, iteration: Iteration, seconds: float, *, needs_training: bool) -> Cutter:
        """Return what cuts a window of the iteration's loader."""
        return Cutter(
            seconds,
            round_batches=iteration.level,
            needs_training=needs_training,
            cpu=self.read_cpu,
        )

    def read_cpu(self) -> CpuSeconds:
        """Return the CPU seconds so far, once the device has done its work."""
        self._synchronize()
        return CpuSeconds(time.process_time(), worker_cpu_seconds())

    def close_window(
        self, cutter: Cutter, iteration: Iteration, phase: WindowPhase
    ) -> Window | None:
        """Send what a cutter has, and return it."""
        before = self.clock()
        self._synchronize()
        cutter.lengthens(self.clock() - before)
        part = cutter.result()
        if part is None:
            return None
        window = part.window(level=iteration.level, prefetch=iteration.prefetch, phase=phase)
        self.send(wire.WindowDone(window=window))
        return window
