"""The pass itself, inside the guilty process: looks at even distances, until it can be told."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

from feedrate.analysis.causes import (
    LEAST_SIGHTS,
    Sight,
    comparable,
    filled_lines,
    node_slope,
    rising_lines,
)
from feedrate.measure.causes import tracing
from feedrate.measure.causes.candidates import Evaluation
from feedrate.measure.causes.counting import Counting
from feedrate.measure.causes.evaluating import evaluate
from feedrate.measure.causes.explaining import Surroundings
from feedrate.measure.causes.inspection import Inspection
from feedrate.measure.causes.lines import Lines
from feedrate.measure.causes.looking import Looker
from feedrate.memory_records import GrowthCause

_KEPT = 16
"""Of more looks than these every other one is dropped, and the distance doubled."""
_EARLY_SIGHTS = 7
_EARLY = 0.25
"""A cause may be told after a quarter of the time, if there are enough looks."""
MORE_SECONDS = 10.0
"""Where the time is up and there are too few looks, it goes on for so long at most."""
_COST = 3
"""Between two looks lie so many times what one costs."""
_MOST_LOOKS, _FEWEST_LOOKS = 40, 10
"""So many looks fit into the time at most, and at least where what lies between them counts."""


class Inspector:
    """Watches one process from inside while its loop goes on.

    Call `passed` at one point of the loop's body, always the same: after a step, or in a worker
    when a batch is made. It begins with the second call.

    Args:
        process: "main" or "worker 0".
        seconds: how long it may take, without the end of it, which takes some seconds; with too
            few looks it goes on for up to ten seconds more.
        named: objects to be told by name, as the dataset.
        epoch_items: how many items an epoch brings to this process, where that is known; else the
            epochs that end tell it.
        expected: bytes by which the process was seen to grow with each of its items, 0 where that
            had ended by then; else it is seen here, beside the tracing.
    """

    def __init__(
        self,
        process: str,
        seconds: float,
        *,
        named: Mapping[str, object] | None = None,
        epoch_items: float | None = None,
        expected: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.is_over = False
        self.inspection = Inspection(process=process, growth=_nothing(process), is_complete=False)
        self._seconds = seconds
        self._seen = Counting(epoch_items)
        self._expected = expected
        self._clock = clock
        self._lines = Lines()
        self._surroundings = Surroundings(self._lines, named or {})
        self._looker: Looker | None = None
        self._traces = False
        self._sights: list[Sight] = []
        self._stretch = 1
        self._started = self._not_before = 0.0
        self._collected_at = 0
        self._evaluated_at = -1
        self._evaluation: Evaluation | None = None

    def passed(self, items: int) -> None:
        """Take note that so many more items were passed."""
        if self.is_over:
            return
        if self._looker is None:
            self._start()
            return
        self._seen.passed(items)
        if self._seen.calls % self._stretch == 0 and self._clock() >= self._not_before:
            self._look(ends_epoch=False)

    def epoch_ended(self) -> None:
        """Take note that an epoch has ended: the moments after that can be compared."""
        if self.is_over or self._looker is None:
            return
        self._seen.epoch_ended()
        if self._clock() >= self._not_before and self._seen.items > self._evaluated_at:
            self._look(ends_epoch=True)

    def close(self) -> None:
        """End the pass wherever it is; `inspection` has what was seen until then."""
        if self.is_over:
            return
        if self._looker is not None and self._evaluation is None:
            self._sights.append(self._looker.look(self._seen.items))
            self._evaluate()
        if self._evaluation is not None:
            self._finish(is_complete=False)
        self._stop()

    def _start(self) -> None:
        self._traces = tracing.start()
        gc.callbacks.append(self._on_collection)
        self._looker = Looker(self._lines)
        self._started = self._clock()

    def _stop(self) -> None:
        self.is_over = True
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
        if self._looker is not None:
            self._looker.close()
        if self._traces:
            tracing.stop()
        self._looker = None
        self._sights.clear()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2 and self._evaluation is None:
            self._collected_at = self._seen.items

    def _look(self, *, ends_epoch: bool) -> None:
        assert self._looker is not None, "there are no looks before the start"
        begin = self._clock()
        self._sights.append(self._looker.look(self._seen.items, ends_epoch=ends_epoch))
        now = self._clock()
        apart = max(_COST * (now - begin), self._seconds / _MOST_LOOKS)
        self._not_before = now + min(apart, self._seconds / _FEWEST_LOOKS)
        if self._evaluation is not None:
            self._finish(is_complete=True)
            self._stop()
        elif self._is_enough(now - self._started):
            self._evaluate()
            if not self._evaluation_waits():
                self._finish(is_complete=True)
                self._stop()
        self._thin_out()

    def _thin_out(self) -> None:
        for ends in (True, False):
            kept = [sight for sight in self._sights if sight.ends_epoch == ends]
            if len(kept) > _KEPT:
                dropped = {id(sight) for sight in kept[1::2]}
                self._sights = [each for each in self._sights if id(each) not in dropped]
                if not ends:
                    self._stretch *= 2

    def _is_enough(self, elapsed: float) -> bool:
        sights = comparable(self._sights)
        if elapsed >= self._seconds and len(sights) >= LEAST_SIGHTS:
            return True
        if elapsed >= self._seconds + MORE_SECONDS:
            return True
        if elapsed < _EARLY * self._seconds or len(sights) < _EARLY_SIGHTS - 1:
            return False
        if self.inspection.process == "main" and not sights[-1].ends_epoch:
            return False  # what is given back when the epoch ends is not to be blamed
        if rising_lines(sights) or node_slope(sights) > 0:
            return True
        # What had stopped growing when it was seen has filled up here too.
        return self._expected == 0 and bool(filled_lines(tuple(self._sights)))

    def _evaluate(self) -> None:
        assert self._looker is not None, "there is something to see by now"
        sights = comparable(self._sights)
        self._evaluation = evaluate(
            sights,
            tuple(self._sights),
            self._expected,
            self._looker,
            self._surroundings,
            items=self._seen.items,
            since_collection=self._seen.items - self._collected_at,
        )
        self._publish(is_complete=False)
        # The second look: as long after this as two looks are apart at most, and a batch later.
        self._evaluated_at = self._seen.items
        self._not_before = self._clock() + self._seconds / _FEWEST_LOOKS

    def _evaluation_waits(self) -> bool:
        return self._evaluation is not None and self._evaluation.waits()

    def _finish(self, *, is_complete: bool) -> None:
        if self._evaluation is not None and is_complete:
            self._evaluation.look_again()
        self._publish(is_complete=is_complete)
        self._evaluation = None

    def _publish(self, *, is_complete: bool) -> None:
        evaluation = self._evaluation
        if evaluation is None:
            return
        self.inspection = evaluation.inspection(
            self.inspection.process,
            epoch_items=self._seen.epoch_items,
            expected=self._expected,
            items=self._seen.items,
            seconds=self._clock() - self._started,
            is_complete=is_complete,
        )


def _nothing(process: str) -> GrowthCause:
    return GrowthCause(process="main" if process == "main" else "worker", grown=0)
