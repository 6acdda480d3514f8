"""The time of an examination, on a clock that the test sets: what is tried, and what is not."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from feedrate.measure.examined import Handles, Part, SamplerCost, Setup, Untried
from feedrate.measure.examining.examiner import Examiner
from feedrate.measure.examining.forecast import SHORTEST_WINDOW, WINDOW_SECONDS, Forecast
from feedrate.measure.examining.probe import AVAILABLE, run_probe
from feedrate.measure.examining.running import read_setup
from torch_signals import torchs_handler_comes_back

__all__ = ["torchs_handler_comes_back"]
pytestmark = pytest.mark.torch


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def examiner(clock: Clock, until: float) -> tuple[Examiner, list[Part]]:
    loader: DataLoader[Any] = DataLoader(TensorDataset(torch.arange(64)), batch_size=8)
    told: list[Part] = []
    setup = read_setup(loader, None)
    return (
        Examiner(loader, None, setup, told.append, until=until, budget=30.0, clock=clock),
        told,
    )


def untried(told: list[Part]) -> dict[str, str]:
    return {part.what: part.why for part in told if isinstance(part, Untried)}


def test_an_examination_without_time_tries_nothing_and_says_so() -> None:
    it, told = examiner(Clock(100.0), until=100.0)
    it.run()
    assert untried(told) == dict.fromkeys(
        ("pickling", "counting objects", "items", "iterating"), "the time was up"
    )
    assert {type(part) for part in told} == {Setup, Handles, Untried}


def test_a_trial_is_given_what_is_left_and_not_begun_where_that_is_too_little() -> None:
    clock = Clock()
    it, told = examiner(clock, until=30.0)
    cost = SamplerCost(seconds=0.1, bytes=1)
    ran: list[float] = []

    def work() -> Part:
        ran.append(it.left())
        return cost

    assert it.attempt("the first", 5.0, work) is cost
    clock.now = 25.5
    assert it.attempt("the second", 5.0, work) is None
    assert it.attempt("the third", 3.0, work) is cost
    clock.now = 40.0
    assert it.attempt("the fourth", 0.1, work) is None
    assert ran == [29.0, 3.5]
    assert untried(told) == {
        "the second": "it would take about 5 s, and 3.5 s were left",
        "the fourth": "the time was up",
    }


def test_a_trial_that_takes_longer_than_what_is_left_is_ended() -> None:
    clock = Clock(28.7)
    it, told = examiner(clock, until=30.0)

    def work() -> Part | None:
        while True:
            torch.zeros(1000).sum()

    assert it.attempt("for ever", 0.1, work) is None
    assert untried(told) == {"for ever": "it took more than 0.3 s"}


def forecast(**changes: Any) -> Forecast:
    fields: dict[str, Any] = {
        "starts": (0.1, 0.1),
        "epoch": 2.0,
        "kept": True,
        "length": 10_000,
        "batch": 0.01,
        "queued": (4, 4),
    }
    return Forecast(**(fields | changes))


def test_windows_are_short_where_time_is() -> None:
    it = forecast()
    assert not it.by_epochs
    assert it.window(20.0) == WINDOW_SECONDS
    assert it.needs(20.0) == pytest.approx(0.2 + 0.08 + 4 * WINDOW_SECONDS)
    assert it.window(2.4) == pytest.approx((2.4 - 0.28) / 4)
    assert it.needs(2.4) == pytest.approx(2.4)
    assert it.window(0.5) == SHORTEST_WINDOW
    assert it.needs(0.5) > 0.5


def test_epochs_with_few_batches_are_taken_whole() -> None:
    kept = forecast(length=30, starts=(4.0, 4.5), epoch=0.2)
    assert kept.by_epochs
    assert kept.needs(10.0) == pytest.approx(8.5 + 4 * 0.2)  # workers start once on each side
    new = forecast(length=30, starts=(4.0, 4.5), epoch=0.2, kept=False)
    assert new.needs(10.0) == pytest.approx(2 * (8.5 + 0.4))  # and here for every epoch
    faster = forecast(length=30, starts=(0.0, 0.0), epoch=3.2, speedup=4.0)
    assert faster.needs(10.0) == pytest.approx(2 * (3.2 + 0.8))
    assert forecast(length=30, epoch=None).needs(10.0) == float("inf")


def test_epochs_that_end_within_the_windows_start_their_workers_again() -> None:
    once = forecast(kept=False, starts=(1.0, 1.0))
    twice = forecast(kept=False, starts=(1.0, 1.0), length=100)
    assert not twice.by_epochs
    assert twice.needs(20.0) == pytest.approx(once.needs(20.0) + 2.0)


def test_what_waits_comes_at_the_workers_pace_once_and_then_at_the_steps() -> None:
    slow = forecast(batch=0.2, queued=(4, 16), speedup=4.0, step=0.01, starts=(0.0, 0.0))
    assert slow.needs(20.0) == pytest.approx(0.8 + 0.8 + 20 * 0.01 + 4 * WINDOW_SECONDS)


@pytest.mark.skipif(not AVAILABLE, reason="there are no probes without fork")
def test_a_probe_that_stands_far_longer_than_before_is_stuck() -> None:
    def stuck(_: Any, place: Any) -> None:
        for number in range(20):
            place.at = number
            time.sleep(60 if number == 12 else 0.001)

    def slow(_: Any, place: Any) -> None:
        for number in range(20):
            place.at = number
            time.sleep(60)

    told = run_probe(stuck, 20.0, stall=2.0)
    assert (told.end, told.at, told.passed, told.is_stuck) == ("hung", 12, 12, True)
    told = run_probe(slow, 20.0, stall=0.3)
    assert (told.end, told.at, told.passed, told.is_stuck) == ("hung", 0, 0, False)
