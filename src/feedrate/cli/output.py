"""Where results go: the file that is saved after every run, the figure, and the terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from feedrate import store
from feedrate.cli.progress import progress
from feedrate.errors import FeedrateError, OutputError, UsageError
from feedrate.measure.manager import Watcher
from feedrate.records import Suite

FIGURE_ENDINGS = (".png", ".svg", ".pdf")


class Output:
    """The outputs of one measuring command, checked before anything is measured."""

    def __init__(
        self,
        file: store.ResultFile | None,
        figure: Path | None,
        *,
        as_json: bool,
        verbose: bool,
    ) -> None:
        self._file = file
        self._figure = figure
        self._as_json = as_json
        self._verbose = verbose
        self._stderr = Console(stderr=True)
        self._failed: OutputError | None = None

    def save(self, suite: Suite) -> None:
        """Save the suite; called after every run."""
        if self._file is None:
            return
        try:
            self._file.save(suite)
        except OutputError as error:
            self._failed = error
            raise
        self._failed = None

    def measure(self, measure: Callable[[Watcher], Suite]) -> Suite:
        """Measure with progress shown, then show the result, also of what ended early.

        Raises:
            FeedrateError: what ended the measuring, after what there is was shown; or the last
                save failed, after the result was shown.
        """
        try:
            with progress(self._stderr) as watcher:
                suite = measure(watcher)
        except FeedrateError as error:
            if isinstance(error.suite, Suite) and _has_figures(error.suite):
                self.show(error.suite)
            raise
        self.show(suite)
        if self._failed is not None:
            raise self._failed
        return suite

    def show(self, suite: Suite) -> None:
        """Print the result, draw the figure, and say what to do next."""
        if self._as_json:
            sys.stdout.buffer.write(store.encode(suite))
            sys.stdout.buffer.flush()
        else:
            from feedrate.report.text import print_suite

            print_suite(Console(), suite, verbose=self._verbose)
        if self._figure is not None:
            draw(suite, self._figure)
            self.say(f"figure: {self._figure}")
        self.say_next()

    def say_next(self) -> None:
        """Say where the result is and the exact command that shows it again."""
        if self._file is None or not self._file.saved:
            return
        name = shlex.quote(str(self._file.path))
        if self._figure is None:
            self.say(f"saved: {name}\nnext:  feedrate report {name} -o figure.png")
        else:
            self.say(f"saved: {name}\nnext:  feedrate report {name}")

    def say(self, text: str) -> None:
        """Print a line for people on standard error."""
        self._stderr.print(text, markup=False, highlight=False, soft_wrap=True)


def _has_figures(suite: Suite) -> bool:
    return any(run.epochs for benchmark in suite.benchmarks for run in benchmark.runs)


@contextmanager
def open_output(
    output: Path | None,
    figure: Path | None,
    *,
    as_json: bool = False,
    force: bool = False,
    verbose: bool = False,
    kind: str = "bench",
) -> Iterator[Output]:
    """Check every output, then yield what writes them; nothing unfinished stays behind.

    Raises:
        UsageError: a file exists and ``force`` is off, or a figure has no known ending.
        OutputError: one of them cannot be written.
    """
    check_figure(figure, force=force)
    if output is not None:
        file: store.ResultFile | None = store.ResultFile.open(output, force)
    else:
        file = _default_file(kind)
    out = Output(file, figure, as_json=as_json, verbose=verbose)
    if file is None:
        yield out
        return
    with file:
        yield out


def _default_file(kind: str) -> store.ResultFile | None:
    """Return a file in the state folder; a home that cannot be written stops no measuring."""
    try:
        return store.ResultFile.open(store.default_path(kind, datetime.now(timezone.utc)))
    except OutputError as error:
        print(f"warning: the result is not saved: {error}", file=sys.stderr)  # noqa: T201
        return None


def check_figure(figure: Path | None, *, force: bool) -> None:
    """Find out before measuring that a figure cannot be written.

    Raises:
        UsageError: it exists and ``force`` is off, or its ending is none that can be drawn.
        OutputError: its folder is missing or cannot be written to.
    """
    if figure is None:
        return
    if figure.suffix.lower() not in FIGURE_ENDINGS:
        raise UsageError(f"{figure} must end in one of {', '.join(FIGURE_ENDINGS)}")
    if figure.is_dir():
        raise OutputError(f"{figure} is a folder; name a file in it")
    if figure.exists() and not force:
        raise UsageError(f"{figure} exists; name another file, or add --force to replace it")
    if not figure.parent.is_dir():
        raise OutputError(f"there is no folder {figure.parent}; make it, or name another file")
    if not os.access(figure.parent, os.W_OK):
        raise OutputError(f"{figure} cannot be written; name a file in another folder")


def draw(suite: Suite, path: Path) -> None:
    """Draw the suite's figure.

    Raises:
        OutputError: it cannot be written.
    """
    from feedrate.report.plots import draw_suite

    draw_suite(suite, path)
