"""Where results go: the file that is saved after every run, the figure, and the terminal."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from feedrate import store
from feedrate.cli.progress import progress
from feedrate.cli.terminal import notices, results, results_go_out, say
from feedrate.errors import FeedrateError, OutputError, UsageError
from feedrate.measure.manager import Watcher
from feedrate.records import Suite

W = TypeVar("W")

FIGURE_ENDINGS = (".png", ".svg", ".pdf")
_ENDINGS = ", ".join(FIGURE_ENDINGS)


class Output:
    """The outputs of one measuring command, checked before anything is measured."""

    def __init__(
        self,
        file: store.ResultFile | None,
        figure: Path | None,
        *,
        as_json: bool,
        verbose: bool,
        kind: str,
    ) -> None:
        self._file = file
        self._figure = figure
        self._as_json = as_json
        self._verbose = verbose
        self._kind = kind
        self._stderr = notices()
        self._failed: OutputError | None = None

    @property
    def saved(self) -> Path | None:
        """The file that the result was saved to, ``None`` as long as it was not."""
        return self._file.path if self._file is not None and self._file.saved else None

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

    def measure(self, measure: Callable[[Watcher], Suite], *, cut: bool = False) -> Suite:
        """Measure with progress shown, then show the result, also of what ended early.

        ``cut`` is whether each epoch ends after a number of batches.

        Raises:
            FeedrateError: see `watched`.
        """
        return self.watched(progress(self._stderr, cut=cut), measure)

    def watched(self, watching: AbstractContextManager[W], measure: Callable[[W], Suite]) -> Suite:
        """Measure with what shows the progress, then show the result, also of what ended early.

        Raises:
            FeedrateError: what ended the measuring, after what there is was shown; or the last
                save failed, after the result was shown.
        """
        try:
            with watching as watcher:
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
        """Print the result, draw the figure, and say what to do next.

        Raises:
            OutputError: one of them cannot be written; the others were.
        """
        if self._failed is not None:
            self._save_elsewhere(suite)
        try:
            print_result(suite, as_json=self._as_json, verbose=self._verbose)
        finally:
            try:
                if self._figure is not None:
                    draw(suite, self._figure)
                    say(f"figure: {self._figure}")
            finally:
                self.say_next(suite)

    def _save_elsewhere(self, suite: Suite) -> None:
        """Keep in the state folder what could not be saved where it was to go."""
        with contextlib.suppress(OutputError, UsageError):
            file = _in_state_folder(self._kind)
            file.save(suite)
            self._file = file

    def say_next(self, suite: Suite) -> None:
        """Say where the result is and the exact commands that use it."""
        if self.saved is None:
            return
        name = shlex.quote(str(self.saved))
        figure = " -o figure.png" if self._figure is None else ""
        say(f"saved: {name}")
        if suite.recommendation is not None:
            say(f"next:  feedrate apply {name}")
        say(f"next:  feedrate report {name}{figure}")


def print_result(suite: Suite, *, as_json: bool, verbose: bool) -> None:
    """Print the suite on standard output.

    Raises:
        OutputError: it cannot be written.
    """
    with results_go_out():
        if as_json:
            sys.stdout.buffer.write(store.encode(suite))
        else:
            from feedrate.report.text import print_suite

            print_suite(results(), suite, verbose=verbose)


def _has_figures(suite: Suite) -> bool:
    if suite.watch is not None:
        return True
    runs = (run for benchmark in suite.benchmarks for run in benchmark.runs)
    return any(run.epochs or run.windows for run in runs)


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
    if output is not None and output.suffix.lower() in FIGURE_ENDINGS:
        raise UsageError(
            f"-o saves the result as JSON, and {output} is a figure's name: draw it with --figure "
            f"{output}"
        )
    if figure is not None and figure.suffix.lower() == ".json":
        raise UsageError(
            f"--figure draws ({_ENDINGS}), and {figure} is a result's name: save it with "
            f"-o {figure}"
        )
    check_figure(figure, force=force)
    if output is not None and figure is not None and same_file(output, figure):
        raise UsageError(f"{figure} is named for both result and figure; name two files")
    if output is not None:
        file: store.ResultFile | None = store.ResultFile.open(output, force)
    else:
        file = _default_file(kind)
    out = Output(file, figure, as_json=as_json, verbose=verbose, kind=kind)
    if file is None:
        yield out
        return
    with file:
        yield out


def _default_file(kind: str) -> store.ResultFile | None:
    """Return a file in the state folder; a home that cannot be written stops no measuring."""
    try:
        return _in_state_folder(kind)
    except OutputError as error:
        say(f"warning: the result is not saved: {error}")
        return None


def _in_state_folder(kind: str) -> store.ResultFile:
    return store.ResultFile.open(store.default_path(kind, datetime.now(timezone.utc)))


def check_figure(figure: Path | None, *, force: bool) -> None:
    """Find out before measuring that a figure cannot be written.

    Raises:
        UsageError: it exists and ``force`` is off, or its ending is none that can be drawn.
        OutputError: its folder is missing or cannot be written to.
    """
    if figure is None:
        return
    if figure.suffix.lower() not in FIGURE_ENDINGS:
        raise UsageError(f"{figure} must end in one of {_ENDINGS}")
    if figure.is_dir():
        raise OutputError(f"{figure} is a folder; name a file in it")
    if figure.exists() and not force:
        raise UsageError(f"{figure} exists; name another file, or add --force to replace it")
    store.ResultFile.open(figure, force)  # tries whether its folder can be written to


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file, which need not be there yet."""
    return os.path.realpath(one) == os.path.realpath(other)


def draw(suite: Suite, path: Path) -> None:
    """Draw the suite's figure.

    Raises:
        OutputError: it cannot be written.
    """
    from feedrate.report.plots import draw_suite

    draw_suite(suite, path)
