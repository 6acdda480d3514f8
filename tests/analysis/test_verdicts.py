from __future__ import annotations

import msgspec
import pytest
from found import one
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import (
    make_benchmark,
    make_facts,
    make_failed_run,
    make_metadata,
    make_procedure,
    make_run,
    make_suite,
)
from feedrate.analysis.verdicts import best, judge
from feedrate.records import Benchmark, Finding, Run, Suite

# benchmarks/reference/published_sweep.json, augmented: warm images/s of single runs, and
# of the repeated ones the lowest, the median and the highest
AUGMENTED = {0: 8830, 1: 10422, 2: 20626, 4: 41292, 8: 70398, 12: 70322, 16: 64050}
REPEATED = {8: (54306, 55196, 55660), 12: (61716, 62103, 62660), 16: (62614, 63753, 63974)}


def published() -> Suite:
    big = {"items": 60_000}
    sweep = [make_benchmark(n, [rate], run_fields=big) for n, rate in AUGMENTED.items()]
    again = [
        make_benchmark(n, rates, part="repeated", run_fields=big) for n, rates in REPEATED.items()
    ]
    return make_suite([*sweep, *again])


def test_published_sweep() -> None:
    plateau = one(published(), "sweep.plateau_start")
    assert plateau.title.startswith(
        "From 3 runs each, the plateau starts at 12 workers: more workers gain at most 2.7 % "
        "(with 16; "
    )
    fastest = one(published(), "sweep.fastest")
    assert "the rate is highest with 16 workers: 63,753 items/s" in fastest.title
    assert one(published(), "sweep.balanced").title.startswith(
        "From 3 runs each, the balanced choice is 12 workers: 97 % of the rate with 16"
    )


def test_findings_are_made_anew_from_the_records() -> None:
    suite = make_suite()
    stale = Finding(code="sweep.fastest", severity="info", title="Stale.")
    again = msgspec.structs.replace(suite, findings=(stale,))
    assert judge(again) == judge(suite)
    assert stale not in judge(again)


def test_a_suite_from_its_file_is_judged_alike() -> None:
    suite = published()
    again = msgspec.json.decode(msgspec.json.encode(suite), type=Suite)
    assert judge(again) == judge(suite)


def test_another_tolerance_is_another_verdict() -> None:
    rates = {1: [100.0, 101.0], 2: [110.0, 111.0]}
    strict = make_suite(rates=rates)
    loose = make_suite(rates=rates, procedure=make_procedure(tolerance=0.2))
    assert one(strict, "sweep.plateau_start").evidence[0].value == 2
    assert one(loose, "sweep.plateau_start").evidence[0].value == 1


def test_each_condition_has_its_findings_in_order() -> None:
    suite = make_suite(
        [
            make_benchmark(n, [n * 100.0], condition=name)
            for name in ("light", "augmented")
            for n in (1, 2)
        ]
    )
    named = [f.condition for f in judge(suite) if f.code == "sweep.plateau_start"]
    assert named == ["light", "augmented"]
    order = [finding.condition for finding in judge(suite)]
    assert order == sorted(order, key=["light", "augmented", ""].index)


def test_without_a_successful_run_only_failures_are_told() -> None:
    suite = make_suite(
        [make_benchmark(2, runs=[make_failed_run()]), make_benchmark(4, skipped="no room")]
    )
    assert [finding.code for finding in judge(suite)] == ["sweep.failed", "sweep.skipped"]
    assert judge(make_suite([])) == ()


def test_first_epochs_alone_say_nothing_of_later_ones() -> None:
    suite = make_suite(
        [
            make_benchmark(n, runs=[make_run(100.0 * n, later_epochs=0, facts=make_facts(n))] * 5)
            for n in (1, 2)
        ]
    )
    codes = {finding.code for finding in judge(suite)}
    assert "sweep.short_job" not in codes
    assert "sweep.persistent_workers" not in codes
    assert one(suite, "sweep.fastest").title.startswith("By first epochs only, ")


@pytest.mark.parametrize("items", [0, 5])
def test_empty_epochs_are_no_exception(items: int) -> None:
    run = make_run(items=items) if items else make_run(epochs=())
    judge(make_suite([make_benchmark(2, runs=[run])]))


RUNS = st.one_of(
    st.builds(
        lambda rate, epochs, items: make_run(rate, later_epochs=epochs, items=items),
        st.floats(1, 1e6),
        st.integers(0, 2),
        st.integers(1, 10_000),
    ),
    st.builds(make_failed_run),
)


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    count = draw(st.integers(0, 4))
    runs: list[Run] = draw(st.lists(RUNS, max_size=3))
    persistent = draw(st.booleans())
    facts = make_facts(count, persistent_workers=persistent and count > 0)
    return make_benchmark(
        count,
        runs=[msgspec.structs.replace(run, facts=facts) for run in runs],
        condition=draw(st.sampled_from(("", "other"))),
        part=draw(st.sampled_from(("sweep", "repeated", "pin_memory"))),
        pin_memory=draw(st.sampled_from((None, False, True))),
        persistent_workers=(persistent or None) if count else None,
        skipped=None if runs else draw(st.sampled_from((None, "needs 3 GiB"))),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(benchmarks(), max_size=5), st.sampled_from((None, "Example GPU")))
def test_any_suite_can_be_judged(made: list[Benchmark], accelerator: str | None) -> None:
    suite = make_suite(made, metadata=make_metadata(accelerator=accelerator))
    for finding in judge(suite):
        assert finding.title.endswith("."), finding.title
        assert finding.title[0].isupper() or finding.title[0].isdigit() or "_" in finding.title
        assert "  " not in finding.title
        assert ".." not in finding.title
        assert finding.evidence
        assert all(item.name and item.unit for item in finding.evidence)
        for item in finding.evidence:
            if item.low is not None and item.high is not None:
                assert item.low <= item.high
        assert not finding.remedy or finding.remedy.endswith(".")
    chosen = best(suite)
    assert chosen is None or chosen in suite.benchmarks


REFUSED = ("--repeats", "--epochs", "--max-batches", "--persistent-workers", "--plan-epochs")


@settings(max_examples=60, deadline=None)
@given(st.lists(benchmarks(), max_size=5))
def test_no_remedy_names_an_option_that_a_fixed_protocol_refuses(made: list[Benchmark]) -> None:
    for target in ("fashion-mnist", "fashion-mnist (synthetic images)"):
        suite = make_suite(made, metadata=make_metadata(target=target))
        for finding in judge(suite):
            assert not [option for option in REFUSED if option in finding.remedy], finding
            assert not finding.remedy or finding.remedy.endswith(".")


def test_a_fixed_protocol_is_run_again_and_whole() -> None:
    def remedy(*argv: str) -> str:
        metadata = make_metadata(target="fashion-mnist", argv=argv)
        return one(
            make_suite(rates={1: [100.0], 2: [190.0]}, metadata=metadata), "sweep.fastest"
        ).remedy

    assert remedy("bench", "fashion-mnist") == "Run the protocol again: its repeats are fixed."
    assert remedy("bench", "fashion-mnist", "--quick") == (
        "Leave --quick out: the whole protocol measures longer and repeats more."
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(10, 1000), min_size=1, max_size=5), st.integers(1, 3))
def test_the_choice_does_not_depend_on_the_order_of_the_benchmarks(
    rates: list[float], repeats: int
) -> None:
    made = [make_benchmark(n, [rate] * repeats) for n, rate in enumerate(rates)]
    forward, backward = best(make_suite(made)), best(make_suite(made[::-1]))
    assert forward is not None
    assert backward is not None
    assert forward.settings == backward.settings
