"""Progress of a tune on standard error: what is measured, what was found, the time that is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from feedrate import units
from feedrate.analysis.tuned import run_rate
from feedrate.analysis.windows import of_phase, together
from feedrate.errors import OutputError
from feedrate.measure import wire
from feedrate.measure.tune_watcher import LOOK_WORDS, TuneWatcher
from feedrate.records import Run


class PlainTuneProgress(TuneWatcher):
    """One line when a run has ended, and one for each decision of the ramp."""

    def __init__(self, console: Console, *, budget: float) -> None:
        self._console = console
        self._budget = budget
        self._head = ""

    def step_started(self, what: str, spent: float) -> None:
        """Note what is measured, for the line at its end."""
        del what
        self._head = f"[{spent:.0f} of {self._budget:.0f} s]"

    def message(self, message: wire.Message) -> None:
        """Say what the ramp decides."""
        if isinstance(message, wire.Chosen):
            choice = message.choice
            one = "" if choice.level == 1 else "s"
            self.say(f"{self._head} {choice.level} worker{one}: {choice.reason}")

    def step_ended(self, what: str, run: Run) -> None:
        """Say what came of the run."""
        failed = run.error is not None and run.error.kind != "interrupted"
        said = "failed" if failed and what == LOOK_WORDS else outcome(run)
        self.say(f"{self._head} {what}: {said}")

    def note(self, text: str) -> None:
        """Say it."""
        self.say(f"note: {text}")

    def not_saved(self, error: OutputError) -> None:
        """Say that a save failed."""
        self.say(f"warning: {error}")

    def say(self, text: str) -> None:
        """Print one line, as it is."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveTuneProgress(PlainTuneProgress):
    """The same above a line that says what is measured now."""

    def __init__(self, console: Console, status: Status, *, budget: float) -> None:
        super().__init__(console, budget=budget)
        self._status = status
        self._what = ""

    def step_started(self, what: str, spent: float) -> None:
        """Show what is measured."""
        super().step_started(what, spent)
        self._what = what
        self._show("starting")

    def message(self, message: wire.Message) -> None:
        """Show how far the run is."""
        super().message(message)
        if isinstance(message, wire.Progress):
            self._show(f"batch {message.batches:,}")
        elif isinstance(message, wire.WindowDone) and message.window.seconds > 0:
            window = message.window
            rate = units.rate(window.items / window.seconds)
            one = "" if window.level == 1 else "s"
            self._show(f"{window.level} worker{one}: {rate} items/s")

    def _show(self, doing: str) -> None:
        # a path may hold what Rich takes for markup
        text = f"{self._head} {self._what} · {doing}"
        self._status.update(text.replace("[", r"\["))


def outcome(run: Run) -> str:
    """Return what a run found, or its error, as one line."""
    if run.error is not None and run.error.kind == "interrupted":
        return "interrupted"
    if run.error is not None:
        return f"failed: {run.error.sentence}"
    own = together(of_phase(run.windows, "own"))
    if own is not None:
        cached = together(of_phase(run.windows, "cached"))
        most = f", {units.rate(cached.rate)} without a loader" if cached is not None else ""
        return f"{units.rate(own.rate)} items/s, waits {units.share(own.wait_share)}{most}"
    if run.choices:
        last = run.choices[-1]
        return f"{last.level} worker{'' if last.level == 1 else 's'}"
    rate = run_rate(run)
    return f"{units.rate(rate)} items/s" if rate is not None else "nothing measured"


@contextmanager
def tune_progress(console: Console, budget: float) -> Iterator[TuneWatcher]:
    """Yield the watcher that fits the console."""
    if not console.is_terminal:
        yield PlainTuneProgress(console, budget=budget)
        return
    with console.status("starting") as status:
        yield LiveTuneProgress(console, status, budget=budget)
