"""What changes training is tried only where that is allowed and the measurements speak for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.reasons import line
from feedrate.analysis.tuned import read
from feedrate.analysis.tuning import judge, recommend
from feedrate.records import Finding
from feedrate.settings import LoaderSettings
from tune_builders import Loop, raced, tuned_suite

LONG = 10**6


def uneven(**changes: Any) -> Loop:
    """Return a loop that waits for storage, which is quick or slow by turns."""
    facts = {"length": LONG, "in_order": True} | changes.pop("facts", {})
    fields: dict[str, Any] = {
        "own": make_facts(1, **facts),
        "fetch": 0.05,
        "cpu": 0.001,
        "step": 0.0005,
        "ramp_to": (1, 8),
        "chosen": 8,
        "variation": 0.8,
        "order_gain": 1.3,
    }
    return Loop(**(fields | changes))


def orders(loop: Loop, *allow: str) -> set[bool | None]:
    """Tune and return what in_order was set to in the race."""
    tuned_suite(loop, allow=allow)
    return {settings.in_order for settings in raced(loop) if settings is not None}


def findings(loop: Loop, *allow: str) -> dict[str, Finding]:
    return {finding.code: finding for finding in judge(tuned_suite(loop, allow=allow))}


def test_the_order_changes_only_where_that_is_allowed() -> None:
    assert orders(uneven()) == {None}
    assert orders(uneven(), "in_order") == {None, False}


@pytest.mark.parametrize(
    "loop",
    [
        uneven(variation=0.3),
        uneven(facts={"in_order": None}),  # torch before 2.6
        uneven(facts={"in_order": False}),  # nothing is held back
        uneven(cpu=0.04, cpus=0.5),  # the CPUs are full: a slow fetch is one that was not let run
        uneven(step=0.007),  # the loop does not wait any more
    ],
)
def test_the_order_stays_where_nothing_speaks_for_a_change(loop: Loop) -> None:
    assert False not in orders(loop, "in_order")


def test_what_changes_the_order_is_recommended_as_that() -> None:
    advised = recommend(tuned_suite(uneven(), allow=("in_order",)))
    assert advised is not None
    assert advised.settings == LoaderSettings(num_workers=8, in_order=False)
    assert advised.line == "num_workers=8, in_order=False"
    assert "changes the order of batches" in advised.reasons[-1]


def test_an_order_that_is_no_faster_is_not_recommended() -> None:
    advised = recommend(tuned_suite(uneven(order_gain=1.02), allow=("in_order",)))
    assert advised is not None
    assert advised.line == "num_workers=8"


def test_a_slow_batch_is_told_with_the_way_to_try_another_order() -> None:
    assert "--allow in_order tries it" in findings(uneven())["speed.head_of_line"].remedy
    tried = findings(uneven(), "in_order")["speed.head_of_line"]
    assert "tried" in tried.remedy
    assert "--allow" not in tried.remedy
    assert "speed.head_of_line" not in findings(uneven(facts={"in_order": False}))


def test_batches_that_take_no_time_hold_nothing_back() -> None:
    assert "speed.head_of_line" not in findings(uneven(fetch=0.0001, cpu=0.0001, transport=0.004))


def test_own_settings_out_of_order_stay_so() -> None:
    loop = uneven(facts={"in_order": False})
    suite = tuned_suite(loop)
    own = next(b.settings for b in suite.benchmarks if b.part == "confirmation")
    assert own.in_order is False
    assert "in_order=False" in line(own)
    advised = recommend(suite)
    assert advised is not None
    assert advised.line == "num_workers=8"


def depths(loop: Loop) -> set[int | None]:
    """Tune and return what prefetch_factor was set to in the race."""
    tuned_suite(loop)
    return {settings.prefetch_factor for settings in raced(loop) if settings is not None}


def test_a_deeper_queue_is_tried_where_workers_are_not_done_in_turn() -> None:
    loop = uneven(variation=0.3, depth_gain=1.1)
    assert depths(loop) == {None, 4}
    advised = recommend(tuned_suite(loop))
    assert advised is not None
    assert advised.line == "num_workers=8, prefetch_factor=4"
    assert "deals them out in turn" in advised.reasons[1]


def test_a_deeper_queue_that_is_no_faster_is_not_recommended() -> None:
    advised = recommend(tuned_suite(uneven(variation=0.3, depth_gain=1.02)))
    assert advised is not None
    assert advised.line == "num_workers=8"


@pytest.mark.parametrize(
    "loop",
    [
        uneven(variation=0.1),
        uneven(facts={"loader": "feedrate"}),  # whoever is free gets the next batch
        uneven(cpu=0.04, cpus=0.5),
        uneven(step=0.007),
    ],
)
def test_the_queue_stays_where_nothing_speaks_for_a_deeper_one(loop: Loop) -> None:
    assert depths(loop) == {None}


def test_a_level_that_only_torchs_loader_gains_by_is_recommended_with_both_figures() -> None:
    loop = Loop(own=make_facts(1, length=LONG), chosen=4, ramp_to=(1, 4, 5), step=0.001)
    loop.ramp_rates = {5: 190.0}
    suite = tuned_suite(loop)
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings.num_workers == 5
    levels = {each.level: each.rate for each in read(suite).levels}
    assert levels[5] < levels[4]
    assert f"{levels[5]:,.0f} items/s in the ramp, where 4 gave" in advised.reasons[0]
    assert "nothing that raced against it was 3 % faster" in advised.reasons[0]


def sizes(loop: Loop, *allow: str) -> set[int | None]:
    """Tune and return what the batch size was set to in the race."""
    tuned_suite(loop, allow=allow)
    return {settings.batch_size for settings in raced(loop) if settings is not None}


def sized(**changes: Any) -> Loop:
    """Return a loop in batches of 64."""
    facts = {"length": LONG, "batch_size": 64, "dataset_length": LONG} | changes.pop("facts", {})
    return Loop(**({"own": make_facts(2, **facts), "batch_gain": 1.3} | changes))


def test_the_batch_size_changes_only_where_that_is_allowed() -> None:
    assert sizes(sized()) == {None}
    assert sizes(sized(), "in_order") == {None}
    assert sizes(sized(), "batch_size") == {None, 128}
    assert sizes(sized(facts={"batch_size": None}), "batch_size") == {None}
    assert sizes(sized(facts={"dataset_length": 100}), "batch_size") == {None}


def test_smaller_batches_are_tried_where_memory_is_short() -> None:
    loop = sized()
    ramp = loop._ramp

    def short(session: Any) -> Any:
        outcome = ramp(session)
        last = msgspec.structs.replace(outcome.choices[-1], reason="memory is short: 1 MiB is free")
        return dataclasses.replace(outcome, choices=(*outcome.choices[:-1], last))

    loop._ramp = short  # type: ignore[method-assign]
    assert sizes(loop, "batch_size") == {None, 128, 32}


def test_another_batch_size_is_recommended_as_another_training() -> None:
    advised = recommend(tuned_suite(sized(), allow=("batch_size",)))
    assert advised is not None
    assert advised.line == "num_workers=5, batch_size=128"
    assert "another training" in advised.reasons[-1]
    small = recommend(tuned_suite(sized(batch_gain=1.02), allow=("batch_size",)))
    assert small is not None
    assert small.line == "num_workers=5"


def test_a_step_bound_loop_may_gain_by_larger_batches() -> None:
    suite = tuned_suite(sized(step=1.0), allow=("batch_size",))
    advised = recommend(suite)
    assert advised is not None
    assert advised.line == "num_workers=2, batch_size=128"
    assert advised.reasons[0] == "num_workers=2: as it is, for the step is the limit."
    assert not any(b.part == "ramp" for b in suite.benchmarks)
    codes = findings(sized(step=1.0, batch_gain=1.0), "batch_size")
    assert "speed.step_bound" in codes


def test_half_as_many_batches_of_twice_the_size_are_the_same_items() -> None:
    def counted(batches: int) -> bool:
        loop = sized()
        outcome = loop._outcome

        def whole(*arguments: Any, **changes: Any) -> Any:
            made = outcome(*arguments, **changes)
            spec = loop.seen[-1]
            doubled = spec.settings is not None and spec.settings.batch_size is not None
            use = msgspec.structs.replace(
                made.used.loaders[0], batches=batches if doubled else 1000, complete_epochs=1
            )
            return dataclasses.replace(
                made, used=msgspec.structs.replace(made.used, loaders=(use,))
            )

        loop._outcome = whole  # type: ignore[method-assign]
        race = read(tuned_suite(loop, allow=("batch_size",))).race
        return next(each.differs for each in race if each.settings.batch_size)

    assert counted(500) is False
    assert counted(1000) is True
