"""The course of a tune, on loops that are made up: what runs next, and when it ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.tuned import RACE, read
from feedrate.errors import Interrupted
from feedrate.measure import wire
from feedrate.plan.tuning import (
    Done,
    Limits,
    Looking,
    Ramping,
    Round,
    next_step,
    refusal,
    static_seconds,
)
from feedrate.records import Suite
from feedrate.settings import Budget, LoaderSettings
from tune_builders import Loop, limits, make_tune, make_tuner, raced, small_gain, tuned_suite

LIGHT: dict[str, Any] = {"batch_bytes": 0, "batch_tensors": 0}
"""Batches that nobody has to hand over, so that nothing runs beside."""


def course(loop: Loop, *, seconds: float = 60.0, **changes: Any) -> str:
    """Tune to the end and return the reason of the end."""
    return make_tuner(loop, seconds=seconds, **changes).tune()


def workers(loop: Loop) -> list[int]:
    own = loop.own.num_workers
    return [own if settings is None else settings.num_workers for settings in raced(loop)]


def after(loop: Loop, runs: int) -> Suite:
    """Return the suite after so many children, before a race is begun."""
    loop.interrupt_at = runs + 1
    tuner = make_tuner(loop)
    with pytest.raises(Interrupted):
        tuner.tune()
    kept = tuple(b for b in tuner.suite.benchmarks if b.runs)
    return msgspec.structs.replace(tuner.suite, benchmarks=kept)


def test_it_begins_with_a_look() -> None:
    step = next_step(read(make_tune()), limits(60))
    assert step == Looking(seconds=3.0)


def test_a_look_takes_a_share_of_the_time_within_bounds() -> None:
    assert next_step(read(make_tune()), limits(5)) == Looking(seconds=2.0)
    assert next_step(read(make_tune()), limits(3600)) == Looking(seconds=10.0)


def test_a_step_bound_loop_ends_after_the_look() -> None:
    loop = Loop(step=1.0)
    assert course(loop) == "step_bound"
    assert len(loop.seen) == 1


def test_too_few_batches_are_no_measurement() -> None:
    loop = Loop()
    look = loop._look
    loop._look = lambda: _cut(look())  # type: ignore[method-assign]
    assert course(loop) == "too_short"


def _cut(outcome: Any) -> Any:
    windows = [
        msgspec.structs.replace(w, batches=3, items=96, seconds=0.1) for w in outcome.windows
    ]
    return dataclasses.replace(outcome, windows=tuple(windows))


def test_the_ramp_comes_next_and_keeps_to_the_most_workers() -> None:
    step = next_step(read(after(Loop(), 1)), limits(60, most_workers=7))
    assert step == Ramping(seconds=18.0, most_workers=7)


def test_then_the_best_races_against_the_own_settings_in_rotated_rounds() -> None:
    loop = small_gain()
    assert course(loop) == "raced"
    assert workers(loop) == [5, 6, 6, 5, 5, 6, 6, 5, 5, 6]
    # the user's own settings are run on a loader that nothing was set on
    assert [settings is None for settings in raced(loop)] == [n == 5 for n in workers(loop)]


def test_where_one_worker_can_use_all_of_a_quota_no_second_races() -> None:
    """The ramp's short windows differ as the quota lets each run."""
    noisy = {"ramp_rates": {1: 20.0, 2: 23.0, 3: 19.0}, "ramp_to": (1, 2, 3), "chosen": 2}
    half = Loop(fetch=0.05, cpu=0.019, step=0.0005, cpus=0.5, own=make_facts(1), **noisy)
    course(half)
    assert max(workers(half), default=0) <= 1
    none = Loop(fetch=0.05, cpu=0.019, step=0.0005, cpus=0.5, own=make_facts(0), **noisy)
    course(none)
    assert max(workers(none), default=0) <= 1
    waits = Loop(fetch=0.05, cpu=0.002, step=0.0005, cpus=0.5, own=make_facts(1), **noisy)
    course(waits)
    assert max(workers(waits)) == 2, "storage is waited for, and not the quota"


def test_two_rounds_are_enough_for_a_gain_beyond_doubt() -> None:
    loop = Loop(own=make_facts(2, length=10**6))
    assert course(loop) == "raced"
    assert workers(loop) == [2, 5, 5, 2]


def test_a_level_that_was_faster_in_the_ramp_races_too_and_leaves_when_it_is_not() -> None:
    loop = Loop(own=make_facts(1, length=10**6), chosen=4, ramp_to=(1, 4, 5), step=0.0039)
    loop.ramp_rates = {4: 248.0}
    course(loop)
    # 5 workers are a quarter faster: 4 leave after the first round
    assert workers(loop)[:5] == [1, 4, 5, 5, 1]
    assert set(workers(loop)[3:]) == {1, 5}


def test_one_more_than_the_ramp_chose_races_where_torchs_loader_may_gain_by_it() -> None:
    loop = Loop(own=make_facts(1, length=10**6), chosen=4, ramp_to=(1, 4, 5), step=0.001)
    loop.ramp_rates = {5: 190.0}  # with feedrate's loader, and 250 with torch's
    course(loop)
    assert workers(loop)[:5] == [1, 4, 5, 5, 1]
    lost = Loop(own=make_facts(1, length=10**6), chosen=4, ramp_to=(1, 4, 5), step=0.001)
    lost.ramp_rates = {5: 160.0}
    course(lost)
    assert 5 not in workers(lost)


def test_a_search_that_ends_at_the_own_settings_needs_no_race() -> None:
    facts = make_facts(5, persistent_workers=True, length=10**6, **LIGHT)
    loop = Loop(own=facts, step=0.0035, chosen=5)
    loop.ramp_to = (1, 5)
    assert course(loop) == "own_is_best"
    assert raced(loop) == []


def test_no_workers_race_where_the_main_process_may_be_as_fast() -> None:
    loop = Loop(fetch=0.0002, cpu=0.0002, transport=0.0008, step=0.0002)
    loop.own = make_facts(2, length=10**6)
    loop.ramp_to, loop.chosen = (1, 2), 2
    course(loop)
    assert 0 in workers(loop)
    assert 0 not in workers(_run(Loop(own=make_facts(2, length=10**6))))


def _run(loop: Loop) -> Loop:
    course(loop)
    return loop


def test_workers_are_kept_where_their_start_matters() -> None:
    def kept(**changes: Any) -> set[bool | None]:
        facts = {"persistent_workers": False, "length": 10**6} | changes.pop("facts", {})
        loop = Loop(own=make_facts(2, **facts), **changes)
        course(loop)
        return {s.persistent_workers for s in raced(loop) if s is not None}

    assert kept() == {None}
    assert kept(facts={"length": 20}) == {True}
    assert kept(facts={"length": 20, "persistent_workers": True}) == {None}
    assert kept(startup=1000.0) == {True}
    assert kept(facts={"length": None}) == {None}
    assert kept(facts={"length": None}, epochs=3) == {True}


def test_pinned_memory_races_only_where_an_accelerator_copies_for_long_enough() -> None:
    def pinned(batch_bytes: int, accelerator: str | None) -> set[bool | None]:
        facts = make_facts(2, length=10**6, batch_bytes=batch_bytes)
        loop = Loop(own=facts, accelerator=accelerator)
        course(loop)
        return {s.pin_memory for s in raced(loop) if s is not None}

    assert pinned(64 * 2**20, "Example GPU") == {None, True}
    assert pinned(2**10, "Example GPU") == {None}
    assert pinned(64 * 2**20, None) == {None}


def test_a_loader_that_cannot_be_ramped_is_measured_at_levels() -> None:
    loop = Loop(rampable=False, own=make_facts(0))
    assert course(loop, seconds=200) == "raced"
    assert workers(loop)[:7] == [1, 2, 4, 8, 16, 6, 5]


def test_an_iterable_dataset_is_not_ramped() -> None:
    loop = Loop(own=make_facts(0, iterable=True))
    course(loop, seconds=200)
    assert not any(isinstance(spec.session, wire.Ramp) for spec in loop.seen)
    assert workers(loop)[:4] == [1, 2, 4, 8]


def test_levels_begin_near_a_knee_that_can_be_foreseen() -> None:
    loop = Loop(rampable=False, own=make_facts(0), step=0.0005, fetch=0.02, cpu=0.001)
    course(loop, seconds=400)
    assert workers(loop)[0] == 8


def test_single_runs_that_are_all_slower_need_no_race() -> None:
    loop = Loop(rampable=False, own=make_facts(0), fetch=0.001, transport=0.02, cpu=0.001)
    assert course(loop, seconds=200) == "own_is_best"
    assert 0 not in workers(loop)


def test_levels_where_a_worker_died_are_left_and_one_below_is_tried() -> None:
    loop = Loop(rampable=False, own=make_facts(0), breaks_at=6)
    course(loop, seconds=200)
    assert workers(loop)[:5] == [1, 2, 4, 8, 6]
    assert max(workers(loop)[6:]) == 5


def test_levels_leave_time_for_the_race() -> None:
    few, many = (Loop(rampable=False, own=make_facts(0), child_seconds=8.0) for _ in range(2))
    course(few, seconds=40)
    course(many, seconds=400)
    assert len(few.seen) < len(many.seen)


def test_the_ramp_that_broke_leaves_the_levels_that_held() -> None:
    loop = Loop(breaks_at=6, ramp_to=(1, 5, 6))
    assert course(loop) == "raced"
    assert set(workers(loop)) == {0, 5}


def test_a_ramp_that_broke_early_is_tried_once_more_with_half_as_many() -> None:
    loop = Loop(breaks_at=6, ramp_to=(1, 9))
    ramp = loop._ramp

    def jumping(session: wire.Ramp) -> Any:
        loop.ramp_to = (1, min(9, session.most_workers))
        return ramp(session)

    loop.breaks_at = 9
    loop._ramp = jumping  # type: ignore[method-assign]
    assert course(loop) == "raced"
    ramps = [spec.session for spec in loop.seen if isinstance(spec.session, wire.Ramp)]
    assert [each.most_workers for each in ramps] == [32, 4]
    assert set(workers(loop)) == {0, 4}


@pytest.mark.parametrize(("child", "tried"), [(2.0, [32, 16, 8, 4]), (12.0, [32, 16])])
def test_a_ramp_that_breaks_is_halved_while_there_is_time(child: float, tried: list[int]) -> None:
    loop = Loop(child_seconds=child)
    ramp = loop._ramp

    def jumping(session: wire.Ramp) -> Any:
        loop.ramp_to = (1, session.most_workers)
        loop.breaks_at = session.most_workers if session.most_workers > 4 else None
        return ramp(session)

    loop._ramp = jumping  # type: ignore[method-assign]
    assert course(loop, seconds=40) == "raced"
    ramps = [spec.session for spec in loop.seen if isinstance(spec.session, wire.Ramp)]
    assert [each.most_workers for each in ramps] == tried
    assert (4 in workers(loop)) == (4 in tried)


def test_slow_steps_are_measured_though_they_are_few() -> None:
    loop = Loop(step=2.0)
    look = loop._look

    def slow() -> Any:
        outcome = look()
        few = [msgspec.structs.replace(w, batches=1, seconds=2.0) for w in outcome.windows]
        few = [msgspec.structs.replace(w, wait_seconds=0.002, step_seconds=1.998) for w in few]
        return dataclasses.replace(outcome, windows=tuple(few))

    loop._look = slow  # type: ignore[method-assign]
    assert course(loop) == "step_bound"


def test_rounds_become_fewer_where_time_is_short_but_not_less_than_two() -> None:
    rich, poor = small_gain(), small_gain(child_seconds=9.0)
    course(rich, seconds=120)
    course(poor, seconds=40)
    assert len(raced(rich)) == 10
    assert len(raced(poor)) == 4


def test_no_gain_after_three_rounds_is_not_held_on_to() -> None:
    loop = Loop(own=make_facts(5, length=10**6, persistent_workers=False, **LIGHT), step=0.003)
    # the ramp speaks for 6 workers, which are no faster when they run by themselves
    rate = loop.rate
    loop.rate = lambda level: min(rate(level), 200.0)  # type: ignore[method-assign]
    loop.chosen, loop.ramp_to = 6, (1, 6)
    course(loop)
    assert len(raced(loop)) == 6


def test_two_rounds_are_enough_where_the_candidate_is_far_behind() -> None:
    """As no workers are for tiny items, whatever the ramp of another loader speaks for."""
    loop = Loop(own=make_facts(5, length=10**6, persistent_workers=False, **LIGHT), step=0.003)
    rate = loop.rate
    loop.rate = lambda level: 150.0 if level == 6 else min(rate(level), 200.0)  # type: ignore[method-assign]
    loop.chosen, loop.ramp_to = 6, (1, 6)
    course(loop)
    assert len(raced(loop)) == 4


def test_the_runs_of_the_race_share_what_is_left_of_the_time() -> None:
    tuned = read(after(Loop(), 2))
    assert static_seconds(tuned, limits(1000), 2) == 4.0
    assert static_seconds(tuned, limits(20), 2) == 1.0
    assert 1.0 < static_seconds(tuned, limits(60), 2) < 4.0
    assert static_seconds(tuned, limits(60), 20) < static_seconds(tuned, limits(60), 2)


def test_settings_that_do_not_fit_are_not_run() -> None:
    suite = after(Loop(), 2)
    tight = Limits(seconds=60, most_workers=32, free=Budget(cpus=4, shm_bytes=10 * 2**20))
    tuned = read(suite)
    assert refusal(tuned, LoaderSettings(num_workers=1), tight) is None
    assert "/dev/shm" in str(refusal(tuned, LoaderSettings(num_workers=5), tight))
    assert "most allowed" in str(refusal(tuned, LoaderSettings(num_workers=40), limits()))
    step = next_step(tuned, tight)
    assert isinstance(step, Done)
    assert step.reason == "does_not_fit"
    assert [each.settings.num_workers for each in step.refused] == [5]


def test_where_time_is_short_only_the_most_promising_races() -> None:
    def first_round(seconds: float) -> Round:
        loop = Loop(own=make_facts(1, length=10**6), chosen=4, ramp_to=(1, 4, 5), step=0.0039)
        loop.ramp_rates = {4: 248.0}
        step = next_step(read(after(loop, 2)), limits(seconds))
        assert isinstance(step, Round)
        return step

    assert [each.num_workers for each in first_round(60).entries] == [1, 4, 5]
    short = first_round(20)
    assert [each.num_workers for each in short.entries] == [1, 4]
    assert [each.reason for each in short.refused] == ["the time budget held no more"]


def test_all_that_race_are_named_before_the_first_runs() -> None:
    step = next_step(read(after(Loop(own=make_facts(2, length=10**6)), 2)), limits())
    assert isinstance(step, Round)
    assert [each.num_workers for each in step.entries] == [2, 5]


def test_a_candidate_that_fails_leaves_the_race() -> None:
    loop = Loop(own=make_facts(2, length=10**6))
    loop.breaks_at = None
    static = loop._static

    def failing(spec: wire.ChildSpec, session: wire.Static) -> Any:
        loop.breaks_at = 5
        return static(spec, session)

    loop._static = failing  # type: ignore[method-assign]
    assert course(loop) == "raced"
    assert workers(loop) == [2, 5]


def test_a_whole_tune_keeps_to_its_budget() -> None:
    tuned = read(tuned_suite(Loop(), seconds=60))
    assert tuned.spent <= 60
    assert sum(b.part == RACE for b in tuned_suite().benchmarks) == 2
