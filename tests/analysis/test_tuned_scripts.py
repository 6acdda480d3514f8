"""What a tune says of scripts that are short, that fail, and that train on streams."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.answering import answer
from feedrate.analysis.candidates import candidates, foreseen_level
from feedrate.analysis.tuned import read
from feedrate.analysis.tuning import judge, recommend
from feedrate.measure import wire
from feedrate.measure.executor import Outcome
from feedrate.records import Finding, RunError, Suite
from feedrate.report.words import cpus
from tune_builders import Loop, tuned_suite, use

LONG = 10**6
CRASH = RunError(kind="exception", sentence="the target raised RuntimeError: loss is NaN")


def codes(suite: Suite) -> dict[str, Finding]:
    return {finding.code: finding for finding in judge(suite)}


def changed(loop: Loop, change: Any) -> Loop:
    """Have what a child says changed, given the spec."""

    class Changed(Loop):
        def __call__(self, spec: wire.ChildSpec) -> Outcome:
            outcome: Outcome = change(spec, super().__call__(spec))
            return outcome

    return Changed(**{each.name: getattr(loop, each.name) for each in dataclasses.fields(loop)})


def short(spec: wire.ChildSpec, outcome: Outcome) -> Outcome:
    """A script that ends after eight batches, before there is a window of the ramp."""
    used = wire.Used(loaders=(use(batches=8),), training_loader=0)
    if isinstance(spec.session, wire.Look):
        return dataclasses.replace(outcome, windows=outcome.windows[:1], used=used)
    error = RunError(kind="no_batches", sentence="the script ended after 8 batches of a loader")
    return dataclasses.replace(outcome, windows=(), choices=(), used=used, error=error)


def test_a_script_too_short_for_other_settings_is_told_with_all_its_batches() -> None:
    suite = tuned_suite(changed(Loop(), short))
    assert answer(read(suite)).kind == "too_short"
    found = codes(suite)["tune.too_short"]
    assert found.title == "The loop got 8 batches and ended: too few to measure other settings."
    assert [len(each.runs) for each in suite.benchmarks] == [1, 1]  # no more than the ramp's child


def crashing(spec: wire.ChildSpec, outcome: Outcome) -> Outcome:
    """A script that crashes by itself, always at the same place, after the first levels."""
    if isinstance(spec.session, wire.Static):
        return outcome
    return dataclasses.replace(outcome, error=CRASH)


def test_a_script_that_crashes_by_itself_is_not_broken_by_a_level() -> None:
    suite = tuned_suite(changed(Loop(own=make_facts(2, length=LONG)), crashing))
    tuned = read(suite)
    assert len(tuned.ramp_runs) == 1  # half as many workers are not tried
    assert tuned.broken_level is None
    found = codes(suite)["tune.failed"]
    assert found.title.startswith("The script failed, with your own settings too: the target rais")
    assert found.remedy == ""  # there is no traceback to show
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings.num_workers == 5


def test_a_traceback_is_pointed_to_where_there_is_one() -> None:
    def crash(spec: wire.ChildSpec, outcome: Outcome) -> Outcome:
        error = msgspec.structs.replace(CRASH, traceback="Traceback ...")
        failed = isinstance(spec.session, wire.Ramp)
        return dataclasses.replace(outcome, error=error) if failed else outcome

    found = codes(tuned_suite(changed(Loop(), crash)))["tune.failed"]
    assert "-v shows the whole traceback" in found.remedy


def cut(spec: wire.ChildSpec, outcome: Outcome) -> Outcome:
    """A script that ends when the ramp has just gone on from one worker."""
    if not isinstance(spec.session, wire.Ramp):
        return outcome
    return dataclasses.replace(outcome, windows=outcome.windows[:1], choices=outcome.choices[:2])


def test_a_level_that_is_foreseen_is_raced_though_the_script_ended() -> None:
    suite = tuned_suite(changed(Loop(), cut))
    tuned = read(suite)
    assert [each.level for each in tuned.levels] == [1]
    assert foreseen_level(tuned) == 5
    assert [each.num_workers for each in candidates(tuned)] == [5, 1]
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings.num_workers == 5
    assert advised.reasons[0] == (
        "num_workers=5: the script ended before the ramp had measured them; the loop still waits."
    )


def test_nothing_is_foreseen_beyond_what_was_measured() -> None:
    assert foreseen_level(read(tuned_suite(Loop()))) is None
    assert foreseen_level(read(tuned_suite(Loop(ramp_to=(1,), chosen=1)))) is None


def test_a_ceiling_below_the_rate_is_nothing_to_gain() -> None:
    loop = Loop(step=1.0, fetch=1e-9)
    title = codes(tuned_suite(loop))["speed.step_bound"].title
    assert title.startswith("Your loop is step-bound: nothing to gain from a faster loader.")


def streaming(ended: dict[int, int | None], most: dict[int, int] | None = None) -> Loop:
    """Return a loop on a stream with the batches of an epoch at each level."""
    loop = Loop(own=make_facts(0, iterable=True), rampable=False)

    def told(spec: wire.ChildSpec, outcome: Outcome) -> Outcome:
        level = outcome.windows[0].level if outcome.windows else 0
        facts = make_facts(level, iterable=True)
        found = ended.get(level, ended[0])
        made = use(facts, ended_batches=found, most_batches=(most or {}).get(level, found or 60))
        if spec.session and isinstance(spec.session, wire.Look):
            made = msgspec.structs.replace(made, facts=loop.own)
        return dataclasses.replace(outcome, used=wire.Used(loaders=(made,), training_loader=0))

    return changed(loop, told)


def test_the_children_are_told_how_long_an_epoch_is() -> None:
    loop = streaming({0: 100})
    tuned_suite(loop)
    lengths = {getattr(spec.session, "epoch_batches", 100) for spec in loop.seen}
    assert lengths == {100}


@pytest.mark.parametrize(
    ("ended", "most", "differ"),
    [
        ({0: 100}, {}, False),
        ({0: 100, 5: 105}, {}, False),  # a last batch of each worker
        ({0: 100, 5: 106}, {}, True),
        ({0: 100, 5: None}, {5: 106}, True),  # not at its end, and too many already
        ({0: 100, 5: None}, {5: 90}, False),
    ],
)
def test_workers_that_repeat_items_are_not_recommended(
    ended: dict[int, int | None], most: dict[int, int], differ: bool
) -> None:
    suite = tuned_suite(streaming(ended, most), seconds=200)
    raced = [each for each in read(suite).race if each.settings.num_workers == 5]
    assert raced
    assert [each.differs for each in raced] == [differ]
    assert ("correctness.iterable_duplicates" in codes(suite)) is differ


@pytest.mark.parametrize(
    ("ended", "unseen"), [({0: 100}, False), ({0: None}, True), ({0: 100, 5: None}, True)]
)
def test_what_was_not_seen_of_a_stream_is_told(ended: dict[int, int | None], unseen: bool) -> None:
    suite = tuned_suite(streaming(ended), seconds=200)
    advised = recommend(suite)
    assert advised is not None
    count = advised.settings.num_workers
    assert count >= 2
    found = codes(suite).get("correctness.shares_unseen")
    assert (found is not None) == (unseen and (None in (ended[0], ended.get(count, ended[0]))))
    if found is not None:
        assert f"gives each of them {count} times" in found.title


def test_ranks_share_the_cpus() -> None:
    suite = tuned_suite(Loop())
    shared = msgspec.structs.replace(
        suite, metadata=msgspec.structs.replace(suite.metadata, local_ranks=4)
    )
    assert read(shared).roof.cpus == read(suite).roof.cpus / 4
    assert "4 usable CPUs for 4 ranks" in cpus(shared.metadata)
