"""Seconds of what ``benchmarks/torture.py`` does for minutes, and that it sees what is wrong."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("torture")
    capfd.readouterr()  # torch's handler says "Unexpected segmentation fault" for each


def config(**changes: Any) -> Any:
    settings = {
        "seconds": 5.0,
        "seed": 1,
        "window_seconds": 0.2,
        "kept_bytes": 2**20,
        "warm_batches": 10,
    }
    return importlib.import_module("torture_outcome").Config(**{**settings, **changes})


def only(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Leave all other kinds of batches out; forked workers do so too."""
    content = importlib.import_module("torture_content")
    for kind in content.KINDS.keys() - set(kinds):
        monkeypatch.delitem(content.KINDS, kind)


def test_no_byte_is_wrong_and_nothing_is_left(script: ModuleType) -> None:
    outcome = script.torture(config(seconds=6.0))
    assert outcome.tally.wrong == []
    assert outcome.left == ()
    assert outcome.tally.batches > 0
    assert outcome.tally.kills > 0
    assert outcome.tally.forks > 0
    assert outcome.replaced > 0
    assert len(outcome.looks) > 0


def test_a_slot_that_is_free_too_early_is_seen(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from feedrate.loader.arena import Segment

    # No texts: their pickles lie in slots too, and reading a spoilt one may do anything.
    only(monkeypatch, "image", "large")
    monkeypatch.setattr(Segment, "take", lambda self, slot: None)  # forked workers have it too
    outcome = script.torture(config(seconds=60.0, most_wrong=1, kill_seconds=60.0))
    assert outcome.tally.wrong


def test_slots_that_a_fork_can_see_and_are_freed_are_seen(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from feedrate.loader.leases import leases

    def free_at_once(memory: Any, free: Any) -> None:
        memory.release = free

    only(monkeypatch, "large")
    monkeypatch.setattr(leases, "add", free_at_once)
    outcome = script.torture(config(seconds=60.0, most_wrong=1, fork_share=0.5, kill_seconds=60.0))
    assert any("forked process" in each for each in outcome.tally.wrong)


def test_memory_that_is_not_given_back_is_seen(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from feedrate.loader import arena_transport

    kept: list[Any] = []
    take = arena_transport.allowance.take

    def take_and_keep(segment: Any, index: int) -> Any:
        memory = take(segment, index)
        kept.append(memory)
        return memory

    only(monkeypatch, "large")
    monkeypatch.setattr(arena_transport.allowance, "take", take_and_keep)
    try:
        outcome = script.torture(config(seconds=8.0, kill_seconds=60.0, slack_bytes=2**21))
    finally:
        kept.clear()
    assert any("arena grows" in fault for fault in outcome.faults), outcome
    assert outcome.left
    assert outcome.tally.wrong == []


def test_a_trend_is_a_slope_that_is_sure_and_large() -> None:
    memory = importlib.import_module("torture_memory")
    times = list(range(60))
    noise = [(7 * i) % 5 for i in times]
    assert not memory.trend(times, [1000 + n for n in noise], 50).grows
    assert memory.trend(times, [1000 + 5 * i + n for i, n in enumerate(noise)], 50).grows
    assert not memory.trend(times, [1000 + 0.5 * i for i in times], 50).grows  # sure, and small
    assert not memory.trend(times, [2000 - 5 * i for i in times], 50).grows
    warm = [min(1000, 100 * i) for i in times]  # grows in the first third only
    assert not memory.trend(times, warm, 50).grows
    with pytest.raises(ValueError, match="longer run"):
        memory.trend(times[:5], noise[:5], 50)


def test_a_run_too_short_for_a_trend_is_no_pass() -> None:
    outcome = importlib.import_module("torture_outcome")
    tally = importlib.import_module("torture_keeping").Tally()
    short = outcome.Outcome(outcome.Config(), tally, 0, (), ())
    assert any("run it for longer" in fault for fault in short.faults)


def test_what_a_batch_is_depends_on_its_number_alone() -> None:
    content = importlib.import_module("torture_content")
    prints = [content.fingerprint(content.expected(number)) for number in range(40)]
    assert prints == [content.fingerprint(content.expected(number)) for number in range(40)]
    assert len({content.kind_of(number) for number in range(40)}) == len(content.KINDS)
    for number in range(40):
        batch = content.expected(number)
        if content.size_of(batch):
            content.scribble(batch, number)
            assert content.fingerprint(batch) != prints[number]
