"""The session of ``leaks``: the loop stands still at phases of its epochs, to be looked at.

Nothing is read here but what torch tells of its device: the parent reads the memory of this
process and of its workers from outside, between a `feedrate.measure.wire.Mark` and its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from feedrate.errors import TargetError
from feedrate.loader.torch_private import index_iterator, worker_pids
from feedrate.measure import wire
from feedrate.measure.carrying import Carrying
from feedrate.measure.configure import configure
from feedrate.measure.device_memory import DeviceSight
from feedrate.measure.guard import missing_guard
from feedrate.measure.indices import index_list
from feedrate.measure.readable import readable_bytes
from feedrate.measure.rhythm import Rhythm
from feedrate.measure.sender import Sender
from feedrate.measure.sessions import Session
from feedrate.measure.uses import Iteration, Use, pick_most_used, pick_trained
from feedrate.memory_records import IndexList
from feedrate.records import DevicePeaks, Window
from feedrate.settings import LoaderSettings


@dataclass(slots=True)
class _Course:
    """One loader's passes so far.

    ``left_at`` is after how many batches the loop left the last one, if it did, and ``cut`` the
    same where it left two in a row there: one alone may have been to see what a batch looks like.
    ``steady_items``, ``steady_batches`` and the seconds leave out what a pass takes to start.
    """

    rhythm: Rhythm
    epoch: int = -1
    is_open: bool = False
    batches: int = 0
    left_at: int | None = None
    cut: int | None = None
    items: int = 0
    steady_items: int = 0
    steady_batches: int = 0
    wait_seconds: float = 0.0
    step_seconds: float = 0.0
    level: int = 0
    prefetch: int | None = None
    workers: tuple[int, ...] | None = ()
    carrying: Carrying = field(default_factory=Carrying)
    indices: IndexList | None = None

    def leaves(self) -> None:
        """The loop goes no further with a pass that has not come to its end."""
        self.cut = self.batches if self.batches == self.left_at else None
        self.left_at = self.batches

    def goes_on(self) -> None:
        """A pass is not over where it was thought to be, or comes to its end."""
        self.left_at = self.cut = None

    def saw(self, loader: Any, iterator: Any, batch: Any, *, travelled: bool) -> None:
        """Look at what comes with the first batches; ``travelled`` from torch's workers."""
        if travelled:
            self.carrying.saw(batch)
        if self.epoch == 0 and self.batches == 1:
            self.indices = index_list(index_iterator(iterator), loader)


class MemorySession(Session):
    """Stops the loop of the training loader at phases of its epochs.

    Until an optimizer steps, any loader of a script may be the one.
    """

    def __init__(
        self, send: Any, spec: wire.Leaks, settings: LoaderSettings | None, **options: Any
    ) -> None:
        super().__init__(send, **options)
        self._spec = spec
        self._settings = settings
        self._courses: dict[int, _Course] = {}
        self._chosen: Use | None = None
        self._device = DeviceSight()
        self._readable: dict[int, int | None] = {}

    def concerns(self, use: Use) -> bool:
        """Any loader of a script may be the one, unless a number was given; else the first."""
        if self._spec.loader is not None:
            return use.number == self._spec.loader
        return self._is_script or use.number == 0

    def prepare(self, loader: Any, use: Use) -> tuple[str, ...]:
        """Set the settings, where some were given; look at the dataset while no worker runs."""
        count: int = getattr(loader, "num_workers", 0)
        is_first = use.number not in self._readable  # of loaders that are made anew
        if is_first and count and self.concerns(use):
            self._readable[use.number] = readable_bytes(getattr(loader, "dataset", None))
        if self._settings is None or not self.concerns(use):
            return ()
        if self._settings.num_workers and (unguarded := missing_guard(loader)):
            self.refuse("exception", unguarded)
        try:
            return configure(loader, self._settings)
        except TargetError as error:
            self.refuse("exception", str(error))
            raise  # never: it ends the target

    def on_leave(self, use: Use) -> None:
        """End the pass before, should the loop have left it early."""
        course = self._courses.get(use.number)
        if course is not None and course.is_open and course.batches:
            course.leaves()
            self._ends(use, course)

    def on_begin(self, iteration: Iteration) -> None:
        """Begin another pass."""
        use = iteration.use
        if not self._is_watched(use):
            return
        course = self._courses.get(use.number)
        if course is None:
            course = self._courses[use.number] = _Course(self._make_rhythm())
        facts = use.facts
        course.rhythm.begins(
            workers_end=iteration.level > 0 and not (facts is not None and facts.persistent_workers)
        )
        course.epoch += 1
        course.is_open, course.batches = True, 0
        course.level, course.prefetch = iteration.level, iteration.prefetch

    def on_batch(self, iteration: Iteration, wait: float, items: int) -> None:
        """Count the batch, also one that comes after what was thought to be the last."""
        course = self._courses.get(iteration.use.number)
        if course is None or not self._is_watched(iteration.use):
            return
        if not course.is_open and course.batches:
            course.is_open = True
            course.goes_on()
        if course.is_open:
            course.batches += 1
            course.items += items
            if course.batches > 1:
                course.steady_batches += 1
                course.steady_items += items
                course.wait_seconds += wait

    def take_over(self, iteration: Iteration, iterator: Any, batch: Any) -> None:
        """Stop for a look if one is due."""
        use = iteration.use
        course = self._courses.get(use.number)
        if course is None or not course.is_open or not self._is_watched(use):
            return
        course.workers = worker_pids(iterator) if course.level else ()
        is_torchs = use.facts is None or use.facts.loader != "feedrate"
        travelled = course.level > 0 and is_torchs
        course.saw(iteration.loader(), iterator, batch, travelled=travelled)
        length = self._length(use, course)
        if course.batches == length:
            self._ends(use, course)
        elif course.rhythm.due(course.batches, length, is_end=False):
            self._mark(use, course, length)
        if course.rhythm.elapsed >= self._spec.seconds:
            if course.is_open:
                self._mark(use, course, length, is_last=True)
            self._complete(use, course)

    def on_step(self, iteration: Iteration, seconds: float | None) -> None:
        """Count the step's time."""
        course = self._courses.get(iteration.use.number)
        if course is not None and seconds is not None:
            course.step_seconds += seconds

    def on_end(self, iteration: Iteration, wait: float) -> None:
        """End the pass, where its length was not known before."""
        del wait
        use = iteration.use
        course = self._courses.get(use.number)
        if course is None or not course.is_open or not self._is_watched(use):
            return
        course.goes_on()
        if course.level and not (use.facts is not None and use.facts.persistent_workers):
            course.workers = ()
        self._ends(use, course)

    def on_optimizer_step(self, iteration: Iteration) -> None:
        """Settle on the loader whose batches an optimizer's steps follow first.

        One that gave some batches before, as for a sanity check, is not followed by them.
        """
        if self._chosen is None and iteration is self.current and self.concerns(iteration.use):
            self._chosen = iteration.use

    def tell_rest(self) -> int | None:
        """Say how the loop did; return which loader is the one."""
        uses = [use for use in self.uses.all if self.concerns(use) and use.number in self._courses]
        use = self._chosen or pick_trained(uses) or pick_most_used(uses)
        if use is None or not use.batches:
            return None
        self._tell_window(self._courses[use.number])
        return use.number

    def device_peaks(self) -> DevicePeaks | None:
        """Return the device's highest figures and its mean utilization."""
        return self._device.peaks()

    def _is_watched(self, use: Use) -> bool:
        return use is self._chosen if self._chosen is not None else self.concerns(use)

    def _make_rhythm(self) -> Rhythm:
        spec = self._spec
        return Rhythm(self.clock, duty=spec.duty, seconds=spec.seconds, fewest=spec.fewest)

    def _length(self, use: Use, course: _Course) -> int | None:
        """Return how many batches the pass will have, ``None`` where that is not known."""
        if course.cut is not None:
            return course.cut
        length = use.ended_batches
        if length is None and use.facts is not None:
            length = use.facts.length
        limit = self._spec.max_batches
        if limit is None:
            return length
        return limit if length is None else min(limit, length)

    def _ends(self, use: Use, course: _Course) -> None:
        course.is_open = False
        passes = course.epoch + 1
        is_last = self._spec.epochs is not None and passes >= self._spec.epochs
        if course.rhythm.due(course.batches, course.batches, is_end=True) or is_last:
            self._mark(use, course, course.batches, is_end=True, is_last=is_last)
        if is_last:
            self._complete(use, course)

    def _mark(
        self,
        use: Use,
        course: _Course,
        length: int | None,
        *,
        is_end: bool = False,
        is_last: bool = False,
    ) -> None:
        mark = wire.Mark(
            loader=use.number,
            epoch=course.epoch,
            batches=course.batches,
            items=course.items,
            length=length,
            is_end=is_end,
            is_last=is_last,
            workers=course.workers,
            forked=course.level > 0 and use.facts is not None and use.facts.start_method == "fork",
            device=self._device.reading(),
            device_free=self._device.free(),
            carried=course.carrying.record(),
            indices=course.indices,
            readable=self._readable.get(use.number),
            stood=sum(each.rhythm.spent for each in self._courses.values()),
        )
        started = self.clock()
        answer = self._ask(mark)
        course.rhythm.looked(self.clock() - started)
        if answer == wire.STOP:
            self._complete(use, course)
        elif answer == wire.REST:
            course.rhythm.rest()

    def _ask(self, mark: wire.Mark) -> bytes:
        if isinstance(self.send, Sender):
            return self.send.ask(mark)
        self.send(mark)
        return wire.GO

    def _complete(self, use: Use, course: _Course) -> None:
        self._tell_window(course)
        self.complete(use.number)

    def _tell_window(self, course: _Course) -> None:
        window = Window(
            level=course.level,
            prefetch=course.prefetch,
            batches=course.steady_batches,
            items=course.steady_items,
            seconds=course.wait_seconds + course.step_seconds,
            wait_seconds=course.wait_seconds,
            step_seconds=course.step_seconds,
            phase="own",
        )
        self.send(wire.WindowDone(window=window))
