"""Progress on standard error: a line that moves in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from feedrate import units
from feedrate.errors import OutputError
from feedrate.measure import wire
from feedrate.measure.manager import Place, Watcher
from feedrate.records import Benchmark, Run

ENDLESS = (
    "the loader tells no length: should an epoch never end, press Ctrl-C and measure with "
    "--max-batches N"
)


class PlainProgress(Watcher):
    """One line when a run starts and one when it has ended."""

    def __init__(self, console: Console, *, cut: bool) -> None:
        self._console = console
        self._head = ""
        self._hinted = cut

    def run_started(
        self, place: Place, benchmark: Benchmark, repeat: int, left: float | None
    ) -> None:
        """Note which run it is, for the line at its end."""
        self._head = describe(place, benchmark, repeat)
        self.say(", ".join(part for part in (self._head, time_left(place, left)) if part))

    def message(self, message: wire.Message) -> None:
        """Show none but what may be the only word for ever: a line each would flood a log."""
        if isinstance(message, wire.Ready) and message.facts.length is None and not self._hinted:
            self._hinted = True
            self.say(ENDLESS)

    def run_ended(self, benchmark: Benchmark, run: Run) -> None:  # noqa: ARG002
        """Say what came of the run."""
        self.say(f"{self._head}: {outcome(run)}")

    def skipped(self, benchmark: Benchmark) -> None:
        """Say why a benchmark is not tried."""
        self.say(f"{benchmark.label}: skipped: {benchmark.skipped}")

    def not_saved(self, error: OutputError) -> None:
        """Say that a save failed."""
        self.say(f"warning: {error}")

    def say(self, text: str) -> None:
        """Print one line, as it is."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveProgress(PlainProgress):
    """A bar for all runs with the batch that is measured and the time left."""

    def __init__(self, console: Console, bar: Progress, *, cut: bool) -> None:
        super().__init__(console, cut=cut)
        self._bar = bar
        self._task: TaskID | None = None
        self._batches: int | None = None
        self._left = ""

    def run_started(
        self, place: Place, benchmark: Benchmark, repeat: int, left: float | None
    ) -> None:
        """Move the bar to this run."""
        self._head = describe(place, benchmark, repeat)
        self._batches = None
        self._left = time_left(place, left)
        if self._task is None:
            self._task = self._bar.add_task("")
        self._bar.update(self._task, total=place.total)
        self._show(place.position - 1, "starting")

    def message(self, message: wire.Message) -> None:
        """Show how far the run is."""
        super().message(message)
        if isinstance(message, wire.Ready):
            self._batches = message.facts.length
        elif isinstance(message, wire.Progress):
            of = f" of {self._batches:,}" if self._batches else ""
            self._show(None, f"epoch {message.epoch + 1}, batch {message.batches:,}{of}")

    def run_ended(self, benchmark: Benchmark, run: Run) -> None:
        """Leave a line above the bar and move on."""
        super().run_ended(benchmark, run)
        if self._task is not None:
            self._bar.advance(self._task)

    def _show(self, completed: int | None, doing: str) -> None:
        if self._task is not None:
            text = " · ".join(part for part in (self._head, doing, self._left) if part)
            self._bar.update(self._task, completed=completed, description=text)


def describe(place: Place, benchmark: Benchmark, repeat: int) -> str:
    """Return a run's place and name: ``[3/8] 4 workers, repeat 2``."""
    part = f"part {place.part} of {place.parts}, " if place.parts > 1 else ""
    again = f", repeat {repeat + 1}" if repeat else ""
    return f"[{part}{place.position}/{place.total}] {benchmark.label}{again}"


def time_left(place: Place, seconds: float | None) -> str:
    """Return "about 3 min left", "" where nothing is known yet."""
    if seconds is None:
        return ""
    of = " in this part" if place.parts > 1 else ""
    return f"about {units.duration(seconds)} left{of}"


def outcome(run: Run) -> str:
    """Return a run's rate, or its error, as one line."""
    if run.error is not None:
        return f"failed: {run.error.sentence}"
    epochs = run.epochs[1:] or run.epochs
    seconds = sum(epoch.seconds for epoch in epochs)
    items = sum(epoch.items for epoch in epochs)
    return f"{units.rate(items / seconds)} items/s" if seconds and items else "no items counted"


@contextmanager
def progress(console: Console, *, cut: bool) -> Iterator[Watcher]:
    """Yield the watcher that fits the console; ``cut`` is whether epochs end by a number."""
    if not console.is_terminal:
        yield PlainProgress(console, cut=cut)
        return
    bar = Progress(BarColumn(20), TextColumn("{task.description}"), console=console, transient=True)
    with bar:
        yield LiveProgress(bar.console, bar, cut=cut)
