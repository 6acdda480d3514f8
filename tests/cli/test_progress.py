"""What is shown while measuring."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from builders import make_benchmark, make_facts, make_run
from feedrate.cli.progress import ENDLESS, LiveProgress, progress
from feedrate.measure import wire
from feedrate.measure.manager import Place


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


def shown(*places: Place, terminal: bool) -> str:
    """Return what is shown of runs at these places."""
    lines = io.StringIO()
    console = Console(file=lines, force_terminal=terminal, width=200, color_system=None)
    with progress(console, cut=False) as watcher:
        for place in places:
            watcher.run_started(place, make_benchmark(4), repeat=1, left=90.0)
            watcher.run_ended(make_benchmark(4), make_run(100.0))
    return lines.getvalue()


def test_a_run_is_named_with_its_place_and_the_time_left() -> None:
    text = shown(Place(position=3, total=8), terminal=False)
    assert text.splitlines() == [
        "[3/8] 4 workers, repeat 2, about 1 min 30 s left",
        "[3/8] 4 workers, repeat 2: 100 items/s",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_series_of_several_is_named_too(terminal: bool) -> None:
    text = shown(
        Place(position=7, total=7, part=1, parts=5),
        Place(position=1, total=15, part=2, parts=5),
        terminal=terminal,
    )
    assert "[part 1 of 5, 7/7] 4 workers, repeat 2" in text
    assert "[part 2 of 5, 1/15] 4 workers, repeat 2" in text
    assert "left in this part" in text


def test_the_bar_begins_anew_with_each_series() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    bar = Progress(console=console)
    watcher = LiveProgress(console, bar, cut=False)
    for place in (Place(position=7, total=7), Place(position=1, total=15, part=2, parts=2)):
        watcher.run_started(place, make_benchmark(4), repeat=0, left=None)
    assert [(task.completed, task.total) for task in bar.tasks] == [(0, 15)]
