"""When feedrate's loader runs beside what a tune ended at, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from builders import make_facts
from feedrate.analysis.tuned import BESIDE, read
from feedrate.analysis.tuning import recommend
from feedrate.errors import Interrupted
from feedrate.records import Benchmark
from feedrate.settings import LoaderSettings
from tune_builders import Loop, make_tuner, raced

LONG = 10**6


def waiting(**changes: Any) -> Loop:
    """Return a loop whose CPUs are full with two workers, and which waits even so."""
    fields: dict[str, Any] = {
        "own": make_facts(1, length=LONG),
        "cpu": 0.02,
        "step": 0.0005,
        "cpus": 2,
        "ramp_to": (1, 2, 3),
        "chosen": 2,
    }
    return Loop(**(fields | changes))


def beside(loop: Loop, *, seconds: float = 60.0) -> tuple[Benchmark, ...]:
    """Tune to the end and return what ran beside."""
    tuner = make_tuner(loop, seconds=seconds)
    tuner.tune()
    assert read(tuner.suite).spent <= seconds
    return tuple(b for b in tuner.suite.benchmarks if b.part == BESIDE)


def test_what_won_runs_beside_feedrates_loader_in_rotated_rounds() -> None:
    loop = waiting(feedrate_gain=1.3)
    torchs, ours = beside(loop)
    assert (torchs.label, ours.label) == ("num_workers=2", "feedrate.DataLoader, num_workers=2")
    kinds = [settings.loader for settings in raced(loop)[4:] if settings is not None]
    assert kinds == [None, "feedrate", "feedrate", None]  # beyond doubt after two rounds
    assert {settings.num_workers for settings in raced(loop)[4:] if settings} == {2}


def test_the_smaller_the_gain_the_more_rounds_and_none_takes_two() -> None:
    def rounds(gain: float, seconds: float = 200.0) -> list[int]:
        return [len(each.runs) for each in beside(waiting(feedrate_gain=gain), seconds=seconds)]

    assert rounds(1.3) == [2, 2]
    assert rounds(1.1) == [2, 2]
    assert rounds(1.05) == [3, 3]
    assert rounds(1.034) == [5, 5]  # some of the rounds show less than the tolerance
    assert rounds(1.034, seconds=45.0) == [3, 3]
    assert rounds(1.01) == [2, 2]


def test_the_own_settings_run_beside_where_they_stay() -> None:
    own = make_facts(2, length=LONG, persistent_workers=True)
    loop = waiting(own=own, ramp_to=(1, 2), feedrate_gain=1.3)
    torchs, ours = beside(loop)
    assert torchs.label == "your settings"
    assert ours.settings == LoaderSettings(
        num_workers=2,
        prefetch_factor=2,
        pin_memory=False,
        persistent_workers=True,
        loader="feedrate",
    )
    assert raced(loop) == [None, ours.settings, ours.settings, None]


@pytest.mark.parametrize(
    "loop",
    [
        Loop(own=make_facts(2, length=LONG)),  # does not wait with 5 workers
        waiting(own=make_facts(1, length=LONG, batch_bytes=4096, batch_tensors=0)),
        waiting(own=make_facts(1, length=LONG, loader="feedrate")),
        Loop(own=make_facts(2, length=LONG), fetch=0.0002, cpu=0.0002, transport=0.0008,
             step=0.0002, ramp_to=(1, 2), chosen=2),  # the main process alone is fastest
    ],
)  # fmt: skip
def test_nothing_runs_beside_where_the_transport_cannot_matter(loop: Loop) -> None:
    assert beside(loop) == ()


def test_nothing_runs_beside_where_the_time_is_used_up_or_the_memory_short() -> None:
    assert beside(waiting(), seconds=36) == ()
    assert beside(waiting(), seconds=60) != ()


def test_a_loader_that_cannot_be_feedrates_is_run_once() -> None:
    loop = waiting()
    static = loop._static

    def failing(spec: Any, session: Any) -> Any:
        loop.breaks_at = 2 if spec.settings is not None and spec.settings.loader else None
        return static(spec, session)

    loop._static = failing  # type: ignore[method-assign]
    assert [len(each.runs) for each in beside(loop)] == [1, 1]


def test_an_interrupt_keeps_whole_rounds_and_the_recommendation() -> None:
    whole = waiting()
    beside(whole)
    loop = waiting(interrupt_at=len(whole.seen))
    tuner = make_tuner(loop)
    with pytest.raises(Interrupted):
        tuner.tune()
    kept = [b for b in tuner.suite.benchmarks if b.part == BESIDE]
    assert sum(len(b.runs) for b in kept) == 3
    assert recommend(tuner.suite) is not None
