"""Fewer torch threads in the main process: tried where its step contends with the workers."""

from __future__ import annotations

from typing import Any

import pytest

from builders import make_facts
from feedrate.analysis.tuning import judge, recommend
from feedrate.report.text import suite_text
from feedrate.settings import LoaderSettings
from feedrate.tune_api import answered
from tune_builders import Loop, raced, tuned_suite

LONG = 10**6


def contending(**changes: Any) -> Loop:
    """Return a loop whose step takes all CPUs, as its workers do."""
    facts = {"length": LONG, "main_threads": 4} | changes.pop("facts", {})
    fields: dict[str, Any] = {
        "own": make_facts(1, **facts),
        "cpu": 0.04,
        "step": 0.002,
        "ramp_to": (1, 2, 3),
        "chosen": 2,
        "step_threads": 3.5,
        "cpu_grows": 0.4,
        "thread_gain": 1.3,
    }
    return Loop(**(fields | changes))


def threads(loop: Loop) -> set[int | None]:
    """Tune and return what the race set the threads to."""
    tuned_suite(loop)
    return {settings.main_threads for settings in raced(loop) if settings is not None}


def test_one_thread_and_what_the_workers_leave_are_tried() -> None:
    assert threads(contending(cpus=4)) == {None, 1, 2}
    assert threads(contending(cpus=3)) == {None, 1}


def test_more_workers_that_are_slower_are_a_sign_as_well() -> None:
    loop = contending(cpu_grows=0.0)
    loop.ramp_rates = {3: 70.0}
    assert 1 in threads(loop)


def test_where_workers_slow_the_loop_they_come_first() -> None:
    def first(**changes: Any) -> LoaderSettings:
        loop = contending(cpus=3, **changes)
        tuned_suite(loop)
        others = [each for each in raced(loop) if each is not None and each.num_workers != 1]
        return others[0]

    assert first().main_threads is None
    assert first(ramp_rates={1: 30.0, 2: 35.0, 3: 33.0}).main_threads == 1


@pytest.mark.parametrize(
    "loop",
    [
        contending(cpu_grows=0.1),  # a batch costs the same with more workers
        contending(step_threads=1.0),  # the step is the main thread's alone
        contending(facts={"main_threads": 1}),
        contending(facts={"main_threads": None}),  # a file of an older version
    ],
)
def test_threads_stay_where_nothing_speaks_for_a_change(loop: Loop) -> None:
    assert threads(loop) == {None}


def test_fewer_threads_are_a_line_to_write_besides() -> None:
    suite = answered(tuned_suite(contending(cpus=3)))
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings == LoaderSettings(num_workers=2, main_threads=1)
    assert (advised.line, advised.statements) == ("num_workers=2", ("torch.set_num_threads(1)",))
    assert "take the CPUs from each other" in advised.reasons[-1]
    shown = " ".join(suite_text(suite).split())
    assert "num_workers=2 with torch.set_num_threads(1)" in shown
    assert "in train.py, line 42; and torch.set_num_threads(1) before the loop" in shown
    assert "num_workers=2 with torch.set_num_threads(1)" in judge(suite)[0].title


def test_threads_that_gain_nothing_are_left_alone() -> None:
    advised = recommend(tuned_suite(contending(thread_gain=1.01)))
    assert advised is not None
    assert advised.settings == LoaderSettings(num_workers=2)
    assert advised.statements == ()
