"""Progress of a watch on standard error: how far it is, and what memory is at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from feedrate import units
from feedrate.errors import OutputError
from feedrate.measure.leak_watcher import LeakWatcher
from feedrate.memory_records import MemoryLook, ProcessReading

_LINE_SECONDS = 10.0
"""Outside of a terminal a line comes so often: one for each look would flood a log."""


class PlainLeakProgress(LeakWatcher):
    """A line every now and then."""

    def __init__(
        self, console: Console, *, limit: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._limit = limit
        self._clock = clock
        self._said_at: float | None = None

    def looked(self, look: MemoryLook) -> None:
        """Say what memory is at, if the last line is long ago."""
        now = self._clock()
        if self._said_at is None or now - self._said_at >= _LINE_SECONDS:
            self._said_at = now
            self.say(self.describe(look))

    def explaining(self) -> None:
        """Say that more children follow."""
        self.say("watched; what grows is looked into")

    def note(self, text: str) -> None:
        """Say it."""
        self.say(f"note: {text}")

    def not_saved(self, error: OutputError) -> None:
        """Say that a save failed."""
        self.say(f"warning: {error}")

    def describe(self, look: MemoryLook) -> str:
        """Return one look as a line."""
        parts = [f"epoch {look.epoch + 1}", f"main {units.size(_own(look.main))}"]
        if look.workers:
            mean = sum(_own(each) for each in look.workers) / len(look.workers)
            parts.append(f"{len(look.workers)} × worker {units.size(mean)}")
        return f"[{look.at:.0f} of {self._limit:.0f} s] {' · '.join(parts)}"

    def say(self, text: str) -> None:
        """Print one line, as it is."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveLeakProgress(PlainLeakProgress):
    """One line that changes with each look."""

    def __init__(self, console: Console, status: Status, *, limit: float) -> None:
        super().__init__(console, limit=limit)
        self._status = status

    def looked(self, look: MemoryLook) -> None:
        """Show what memory is at."""
        self._status.update(self.describe(look).replace("[", r"\["))


def _own(process: ProcessReading) -> int:
    memory = process.memory
    return memory.anonymous if memory.anonymous is not None else memory.rss


@contextmanager
def leak_progress(console: Console, limit: float) -> Iterator[LeakWatcher]:
    """Yield the watcher that fits the console."""
    if not console.is_terminal:
        yield PlainLeakProgress(console, limit=limit)
        return
    with console.status("starting") as status:
        yield LiveLeakProgress(console, status, limit=limit)
