"""Progress of a tune where there is no terminal: one line for each run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from builders import make_run
from feedrate.cli.tune_progress import tune_progress
from feedrate.measure.tune_watcher import LOOK_WORDS
from feedrate.records import RunError

CRASH = RunError(kind="exception", sentence="the target raised RuntimeError: loss is NaN")
ENDED = RunError(kind="interrupted", sentence="interrupted by Ctrl-C")


@pytest.mark.parametrize(
    ("what", "error", "line"),
    [
        # why it failed is said by the error that ends the tune, or by a note
        (LOOK_WORDS, CRASH, "[3 of 60 s] a look at the script as it is: failed\n"),
        ("2 workers", CRASH, f"[3 of 60 s] 2 workers: failed: {CRASH.sentence}\n"),
        (LOOK_WORDS, ENDED, "[3 of 60 s] a look at the script as it is: interrupted\n"),
    ],
)
def test_a_failure_is_told_once(what: str, error: RunError, line: str) -> None:
    written = io.StringIO()
    with tune_progress(Console(file=written, width=200), 60) as watcher:
        watcher.step_started(what, 3.0)
        watcher.step_ended(what, make_run(error=error))
    assert written.getvalue() == line
