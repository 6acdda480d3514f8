"""The tuner: what children are told, what is kept and saved, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from builders import make_facts
from feedrate.analysis.tuned import EARLIER, LOOK, RACE, RAMP, read
from feedrate.errors import (
    FeedrateError,
    Interrupted,
    MeasuringTimeout,
    NothingMeasured,
    OutputError,
    TargetError,
)
from feedrate.measure import wire
from feedrate.measure.tune_watcher import TuneWatcher
from feedrate.records import Run, RunError, Suite
from tune_builders import Loop, make_tuner, tuned_suite, use

LONG = 10**6


class Notes(TuneWatcher):
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[Run] = []
        self.notes: list[str] = []
        self.lost: list[str] = []

    def step_started(self, what: str, spent: float) -> None:
        self.began.append(what)

    def step_ended(self, what: str, run: Run) -> None:
        self.ended.append(run)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def not_saved(self, error: OutputError) -> None:
        self.lost.append(str(error))


def sessions(loop: Loop) -> list[str]:
    return [type(spec.session).__name__ for spec in loop.seen]


def test_children_are_told_what_the_course_wants() -> None:
    loop = Loop(own=make_facts(2, length=LONG))
    make_tuner(loop, loader=0).tune()
    look, ramp, *race = (spec.session for spec in loop.seen)
    assert look == wire.Look(seconds=3.0, loader=0)
    assert isinstance(ramp, wire.Ramp)
    assert (ramp.loader, ramp.most_workers, ramp.tolerance) == (0, 32, 0.03)
    assert (ramp.ram_bytes, ramp.shm_bytes, ramp.trained) == (2**40, 2**40, True)
    assert all(isinstance(each, wire.Static) and each.trained for each in race)
    # the user's own settings are run on a loader that nothing was set on
    assert [s.settings.num_workers if s.settings else None for s in loop.seen[2:4]] == [None, 5]


def test_without_optimizer_steps_no_iteration_is_left_out() -> None:
    loop = Loop(own=make_facts(2, length=LONG))
    outcome = loop._outcome

    def stepless(*arguments: Any, **changes: Any) -> Any:
        import dataclasses

        made = outcome(*arguments, **changes)
        used = wire.Used(loaders=(use(loop.own, optimizer_steps=0),), training_loader=0)
        return dataclasses.replace(made, used=used)

    loop._outcome = stepless  # type: ignore[method-assign]
    make_tuner(loop).tune()
    assert not any(
        spec.session.trained
        for spec in loop.seen
        if isinstance(spec.session, wire.Ramp | wire.Static)
    )


def test_the_suite_is_saved_after_every_run() -> None:
    saved: list[Suite] = []
    loop = Loop()
    make_tuner(loop, save=saved.append).tune()
    assert [sum(len(b.runs) for b in suite.benchmarks) for suite in saved] == list(
        range(1, len(loop.seen) + 1)
    )
    positions = [run.position for b in saved[-1].benchmarks for run in b.runs]
    assert sorted(positions) == list(range(len(loop.seen)))


def test_a_save_that_fails_is_told_and_the_tune_goes_on() -> None:
    def full(suite: Suite) -> None:
        raise OutputError("the disk is full")

    notes = Notes()
    assert make_tuner(Loop(), save=full, watcher=notes).tune() == "raced"
    assert set(notes.lost) == {"the disk is full"}


def test_what_is_measured_is_told() -> None:
    notes = Notes()
    make_tuner(Loop(own=make_facts(2, length=LONG)), watcher=notes).tune()
    assert notes.began[:4] == [
        "a look at the script as it is",
        "workers one after another",
        "your settings, round 1",
        "num_workers=5, round 1",
    ]
    assert len(notes.ended) == len(notes.began)


def test_the_machine_and_the_versions_come_from_the_first_child() -> None:
    tuner = make_tuner(Loop())
    tuner.tune()
    assert tuner.suite.metadata.torch_version == "2.6.0"


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("target", TargetError),
        ("timeout", MeasuringTimeout),
        ("exception", NothingMeasured),
        ("no_batches", NothingMeasured),
    ],
)
def test_a_look_that_fails_ends_it_with_its_sentence(
    kind: Any, raised: type[FeedrateError]
) -> None:
    error = RunError(kind=kind, sentence="the script broke", traceback="Traceback …")
    with pytest.raises(raised, match="the script broke") as caught:
        make_tuner(Loop(fail_look=error)).tune()
    assert caught.value.details == "Traceback …"


def test_a_script_that_fails_after_the_look_is_tuned_all_the_same() -> None:
    loop = Loop()
    look = loop._look
    error = RunError(kind="exception", sentence="ValueError at the end")

    def failing() -> Any:
        import dataclasses

        return dataclasses.replace(look(), error=error)

    loop._look = failing  # type: ignore[method-assign]
    notes = Notes()
    assert make_tuner(loop, watcher=notes).tune() == "raced"
    assert notes.notes == ["the script failed after it was measured: ValueError at the end"]


def test_no_loader_and_one_that_is_not_clear_are_told_apart() -> None:
    loop = Loop()

    def raised(used: wire.Used) -> str:
        from feedrate.measure.executor import Outcome

        loop._look = lambda: Outcome(seconds=1.0, used=used)  # type: ignore[method-assign]
        with pytest.raises(NothingMeasured) as caught:
            make_tuner(loop).tune()
        return str(caught.value)

    assert "no DataLoader was iterated" in raised(wire.Used(loaders=(), training_loader=None))
    unclear = wire.Used(loaders=(use(), use(number=1)), training_loader=None)
    assert "--loader N (0, 1)" in raised(unclear)
    assert "no batch" in raised(wire.Used(loaders=(use(),), training_loader=0))


@pytest.mark.parametrize("child", [1, 2, 3, 6])
def test_an_interrupt_keeps_what_was_measured(child: int) -> None:
    saved: list[Suite] = []
    tuner = make_tuner(Loop(interrupt_at=child), save=saved.append)
    with pytest.raises(Interrupted):
        tuner.tune()
    assert sum(len(b.runs) for b in tuner.suite.benchmarks) == child - 1
    assert saved[-1:] == ([] if child == 1 else [tuner.suite])  # no file of nothing
    assert not any(run.error for run in read(tuner.suite).runs)


def test_a_ramp_that_is_interrupted_keeps_its_levels() -> None:
    loop = Loop()
    ramp = loop._ramp

    def interrupted(session: wire.Ramp) -> Any:
        import dataclasses

        error = RunError(kind="interrupted", sentence="interrupted by Ctrl-C")
        return dataclasses.replace(ramp(session), error=error)

    loop._ramp = interrupted  # type: ignore[method-assign]
    tuner = make_tuner(loop)
    with pytest.raises(Interrupted):
        tuner.tune()
    tuned = read(tuner.suite)
    assert [each.level for each in tuned.levels] == [1, 4, 5, 6]
    assert tuned.broken_level is None


def test_an_earlier_search_is_taken_over_and_confirmed() -> None:
    loop, notes = Loop(own=make_facts(2, length=LONG)), Notes()
    earlier = tuned_suite(Loop(own=make_facts(2, length=LONG)))
    tuner = make_tuner(loop, earlier=earlier, watcher=notes)
    assert tuner.tune() == "raced"
    assert sessions(loop) == ["Look"] + ["Static"] * 4
    assert [b.part for b in tuner.suite.benchmarks] == [LOOK, EARLIER, RACE, RACE]
    assert "is taken over" in notes.notes[0]
    assert read(tuner.suite).spent < read(earlier).spent


@pytest.mark.parametrize(
    "changed",
    [Loop(fetch=0.05, own=make_facts(2, length=LONG)), Loop(own=make_facts(1, length=LONG))],
)
def test_an_earlier_search_of_another_loop_is_not(changed: Loop) -> None:
    notes = Notes()
    earlier = tuned_suite(Loop(own=make_facts(2, length=LONG)))
    make_tuner(changed, earlier=earlier, watcher=notes).tune()
    assert "Ramp" in sessions(changed)
    assert "searched again" in notes.notes[0]


def test_an_earlier_search_is_not_needed_where_the_loop_is_step_bound_now() -> None:
    tuner = make_tuner(
        Loop(own=make_facts(2, length=LONG), step=0.00995),
        earlier=tuned_suite(Loop(own=make_facts(2, length=LONG))),
    )
    assert tuner.tune() == "step_bound"
    assert [b.part for b in tuner.suite.benchmarks] == [LOOK]


def test_a_ramp_that_fails_leaves_what_it_measured() -> None:
    tuner = make_tuner(Loop(breaks_at=6, ramp_to=(1, 5, 6)))
    tuner.tune()
    (ramp,) = (b for b in tuner.suite.benchmarks if b.part == RAMP)
    assert ramp.runs[0].error is not None
    assert [each.level for each in read(tuner.suite).levels] == [1, 5]
