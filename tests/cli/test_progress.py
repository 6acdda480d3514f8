"""What is shown while measuring."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from builders import make_facts
from feedrate.cli.progress import ENDLESS, progress
from feedrate.measure import wire


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("length", "cut", "times"), [(None, False, 1), (None, True, 0), (20, False, 0)]
)
def test_a_loader_that_may_never_end_is_said_once(
    terminal: bool, length: int | None, cut: bool, times: int
) -> None:
    lines = io.StringIO()
    console = Console(file=lines, force_terminal=terminal, width=200)
    ready = wire.Ready(setup_seconds=0.1, facts=make_facts(length=length), versions={})
    with progress(console, cut=cut) as watcher:
        watcher.message(ready)
        watcher.message(ready)
    assert lines.getvalue().count(ENDLESS) == times
