"""The answer of a tune, and its findings: each from a loop that has the fault, or has it not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.answering import answer
from feedrate.analysis.candidates import chosen_level
from feedrate.analysis.race import Entry, beyond_doubt, duel, winner
from feedrate.analysis.reasons import line
from feedrate.analysis.tuned import EARLIER, LOOK, RACE, RAMP, read
from feedrate.analysis.tuning import judge, recommend
from feedrate.plan.tuning import Limits
from feedrate.records import Benchmark, Finding, Suite
from feedrate.report.text import suite_text
from feedrate.settings import Budget, LoaderSettings
from feedrate.tune_api import answered
from tune_builders import ITEMS, Loop, make_tune, make_tuner, small_gain, tuned_suite, window

LONG = 10**6


def found(loop: Loop, **changes: Any) -> dict[str, Finding]:
    return {finding.code: finding for finding in judge(tuned_suite(loop, **changes))}


def entry(workers: int, *rates: float, own: bool = False, **settings: Any) -> Entry:
    made = LoaderSettings(num_workers=workers, **settings)
    return Entry(
        benchmark=Benchmark(label="", settings=made, part=RACE),
        own=own,
        rates=dict(enumerate(rates)),
    )


def without(suite: Suite, *parts: str) -> Suite:
    kept = tuple(b for b in suite.benchmarks if b.part not in parts)
    return msgspec.structs.replace(suite, benchmarks=kept)


def test_the_cheapest_within_the_tolerance_wins() -> None:
    entries = [entry(0, 50, 50, own=True), entry(4, 98, 98), entry(8, 100, 100), entry(2, 96, 96)]
    best = winner(entries, 0.03)
    assert best is not None
    assert best.settings.num_workers == 4


def test_one_that_left_early_cannot_win() -> None:
    best = winner([entry(2, 500), entry(4, 98, 98)], 0.03)
    assert best is not None
    assert best.settings.num_workers == 4
    assert winner([entry(2, own=True), entry(4)], 0.03) is None


def test_what_does_other_work_cannot_win() -> None:
    other = msgspec.structs.replace(entry(4, 900, 900), differs=True)
    assert winner([entry(0, 1, own=True), other], 0.03) is None


def test_a_duel_is_paired_by_the_rounds_that_both_finished() -> None:
    found = duel([entry(0, 50, 60, own=True), entry(4, 100, 120, 130)], 0.03)
    assert found is not None
    assert found.rounds == 2
    assert found.ratio.value == pytest.approx(2.0)
    assert found.ratio.paired


def test_a_gain_is_recommended_with_its_interval_and_where_to_write_it() -> None:
    suite = tuned_suite(Loop(own=make_facts(2, length=LONG, persistent_workers=True)))
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings == LoaderSettings(num_workers=5)
    assert advised.line == "num_workers=5"
    assert (advised.file, advised.line_number, advised.confirmations) == ("train.py", 42, 2)
    assert advised.ratio is not None
    assert advised.ratio.low is not None
    assert 2.4 < advised.ratio.low < advised.ratio.value < 2.6
    assert answer(read(suite)).kind == "gain"


def test_a_step_bound_loop_is_told_what_there_is_to_gain() -> None:
    codes = found(Loop(step=1.0))
    assert set(codes) == {"speed.step_bound"}
    assert "at most 2.0 %" in codes["speed.step_bound"].title
    assert recommend(tuned_suite(Loop(step=1.0))) is None


def test_no_workers_and_too_few_are_told_apart() -> None:
    assert "speed.no_overlap" in found(Loop(own=make_facts(0, length=LONG)))
    few = found(Loop(own=make_facts(2, length=LONG)))
    assert "speed.too_few_workers" in few
    assert few["speed.too_few_workers"].severity == "warning"
    assert few["speed.too_few_workers"].remedy == "Set num_workers=5."


def test_fewer_workers_that_do_the_same_are_recommended() -> None:
    loop = Loop(own=make_facts(16, length=LONG, persistent_workers=True), step=0.001, cpus=4)
    loop.cpu, loop.ramp_to, loop.chosen = 0.016, (1, 5, 6), 5
    suite = tuned_suite(loop)
    assert answer(read(suite)).kind == "cheaper"
    assert judge(suite)[0].code == "speed.too_many_workers"
    assert judge(suite)[0].severity == "info"
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings.num_workers == 5


def test_workers_in_each_others_way_are_too_many() -> None:
    loop = Loop(own=make_facts(16, length=LONG, persistent_workers=True))
    rate = loop.rate
    loop.rate = lambda level: rate(level) / (2 if level > 6 else 1)  # type: ignore[method-assign]
    codes = found(loop)
    assert "in each other's way" in codes["speed.too_many_workers"].title


def test_fewer_workers_that_are_also_kept_are_not_told_to_have_been_too_many() -> None:
    loop = Loop(own=make_facts(16, persistent_workers=False, length=20))
    rate = loop.rate
    loop.rate = lambda level: rate(level) / (2 if level > 6 else 1)  # type: ignore[method-assign]
    codes = found(loop)
    assert "speed.too_many_workers" not in codes
    assert "persistent_workers=True" in codes["speed.settings"].title


def test_transport_that_costs_more_than_the_work_is_told() -> None:
    loop = Loop(fetch=0.0002, cpu=0.0002, transport=0.0008, step=0.0002)
    loop.own = make_facts(2, length=LONG)
    loop.ramp_to, loop.chosen = (1, 2), 2
    assert "speed.transport_dominates" in found(loop)
    advised = recommend(tuned_suite(loop))
    assert advised is not None
    assert advised.line == "num_workers=0"
    assert "Leave prefetch_factor and persistent_workers out" in advised.reasons[0]


def test_workers_started_for_each_epoch_are_told() -> None:
    facts = make_facts(2, persistent_workers=False, length=20)
    codes = found(Loop(own=facts))
    assert "50.0 ms each time" in codes["speed.epoch_gap"].title
    advised = recommend(tuned_suite(Loop(own=facts)))
    assert advised is not None
    assert advised.line == "num_workers=5, persistent_workers=True"
    assert "50.0 ms before each epoch of 80.0 ms" in advised.reasons[1]
    spawned = recommend(tuned_suite(Loop(own=msgspec.structs.replace(facts, start_method="spawn"))))
    assert spawned is not None
    assert "the start of workers by spawn takes 50.0 ms" in spawned.reasons[1]


def test_workers_that_wait_for_storage_are_told_from_full_cpus() -> None:
    waiting = found(Loop(fetch=0.05, cpu=0.001, step=0.0005, cpus=2, ramp_to=(1, 20), chosen=20))
    assert "of which 1.00 ms is CPU time" in waiting["speed.latency_bound"].title
    assert "speed.load_bound" not in waiting
    full = found(Loop(fetch=0.02, cpu=0.02, step=0.0005, cpus=2, ramp_to=(1, 2, 3), chosen=2))
    assert "2 CPUs at 20.0 ms of CPU a batch give at most 100" in full["speed.load_bound"].title
    assert "speed.latency_bound" not in full
    throttled = found(
        Loop(fetch=0.04, cpu=0.018, step=0.0005, cpus=0.5, ramp_to=(1, 2, 3), chosen=2)
    )
    assert "speed.load_bound" in throttled
    assert "speed.latency_bound" not in throttled  # a quota lets workers wait, and no storage


def test_cpus_that_give_more_without_workers_are_not_the_limit() -> None:
    # a batch costs 12 ms of a worker's time, and 40 ms of the CPUs with all that workers cost
    loop = Loop(fetch=0.012, cpu=0.04, step=0.0005, cpus=2, ramp_to=(1, 2, 3), chosen=2)
    assert "speed.load_bound" not in found(loop)
    shown = " ".join(suite_text(answered(tuned_suite(loop))).split())
    assert "next limit" not in shown


def test_workers_that_hardly_fetch_share_nothing_that_is_full() -> None:
    loop = Loop(fetch=0.0001, cpu=0.00005, step=0.0005, ramp_to=(1, 3), chosen=3, transport=0.002)
    suite = tuned_suite(loop)
    (ramp,) = (b for b in suite.benchmarks if b.part == RAMP)
    first, last = ramp.runs[0].windows
    assert last.wait_seconds > 0.5 * last.seconds
    last = msgspec.structs.replace(last, fetch_seconds=0.0004)
    run = msgspec.structs.replace(ramp.runs[0], windows=(first, last))
    benchmarks = tuple(
        msgspec.structs.replace(b, runs=(run,)) if b is ramp else b for b in suite.benchmarks
    )
    suite = msgspec.structs.replace(suite, benchmarks=benchmarks)
    assert "speed.shared_limit" not in {finding.code for finding in judge(suite)}


def test_a_shared_resource_is_told_by_fetches_that_get_longer_on_idle_cpus() -> None:
    def shared(longer: float) -> dict[str, Finding]:
        suite = tuned_suite(Loop(fetch=0.05, cpu=0.001, step=0.0005, ramp_to=(1, 8), chosen=8))
        (ramp,) = (b for b in suite.benchmarks if b.part == RAMP)
        first, last = ramp.runs[0].windows
        last = msgspec.structs.replace(last, fetch_seconds=0.05 * longer)
        run = msgspec.structs.replace(ramp.runs[0], windows=(first, last))
        suite = msgspec.structs.replace(
            suite,
            benchmarks=tuple(
                msgspec.structs.replace(b, runs=(run,)) if b is ramp else b
                for b in suite.benchmarks
            ),
        )
        return {finding.code: finding for finding in judge(suite)}

    assert "speed.shared_limit" in shared(4.0)
    assert "speed.shared_limit" not in shared(1.1)


def test_nothing_limits_a_loop_that_does_not_wait_any_more() -> None:
    assert set(found(Loop(own=make_facts(2, length=LONG)))) == {"speed.too_few_workers"}


def test_no_gain_beyond_noise_keeps_the_settings() -> None:
    loop = Loop(own=make_facts(5, length=LONG), step=0.003, ramp_to=(1, 6), chosen=6)
    rate = loop.rate
    loop.rate = lambda level: min(rate(level), 200.0)  # type: ignore[method-assign]
    suite = tuned_suite(loop)
    assert answer(read(suite)).kind == "keep"
    assert "no gain beyond noise" in judge(suite)[0].title
    assert recommend(suite) is None


def test_rates_that_scatter_decide_nothing() -> None:
    suite = tuned_suite(Loop(own=make_facts(2, length=LONG)))
    scattered = iter((400.0, 120.0, 90.0, 430.0, 100.0) * 2)
    benchmarks = []
    for benchmark in suite.benchmarks:
        runs = benchmark.runs
        if benchmark.part == RACE:
            runs = tuple(
                msgspec.structs.replace(run, windows=(window(2, next(scattered)),)) for run in runs
            )
            scattered = iter([110.0, 300.0, 80.0, 420.0, 150.0])
        benchmarks.append(msgspec.structs.replace(benchmark, runs=runs))
    suite = msgspec.structs.replace(suite, benchmarks=tuple(benchmarks))
    assert answer(read(suite)).kind == "undecided"
    (finding,) = (f for f in judge(suite) if f.code == "tune.undecided")
    assert "Keep your settings" in finding.title
    assert recommend(suite) is None


def test_a_ramp_whose_time_was_up_does_not_choose_what_it_last_tried() -> None:
    loop = Loop(own=make_facts(2, length=LONG), chosen=4, ramp_to=(1, 5, 4))
    chosen = chosen_level(read(tuned_suite(loop)))
    assert chosen is not None
    assert chosen.level == 5


def test_what_is_not_confirmed_is_not_recommended() -> None:
    suite = without(tuned_suite(Loop()), RACE)
    assert answer(read(suite)).kind == "unconfirmed"
    assert recommend(suite) is None
    (finding,) = (f for f in judge(suite) if f.code == "tune.unconfirmed")
    assert "speaks for 5 workers" in finding.title
    assert "--budget" in finding.remedy


def test_what_the_memory_does_not_hold_is_told_and_not_run() -> None:
    loop = Loop(own=make_facts(1, length=LONG))
    free = Budget(cpus=4, ram_bytes=2**40, shm_bytes=20 * 2**20)
    tuner = make_tuner(loop, limits=lambda: Limits(seconds=60, most_workers=32, free=free))
    assert tuner.tune() == "does_not_fit"
    codes = {finding.code: finding for finding in judge(tuner.suite)}
    assert "num_workers=5 was not tried: needs about 40 MiB" in codes["tune.skipped"].title
    assert "speaks for 5 workers" in codes["tune.unconfirmed"].title
    assert recommend(tuner.suite) is None


def test_what_the_time_does_not_hold_is_said_and_no_warning() -> None:
    loop = Loop(own=make_facts(1, length=10**6), chosen=4, ramp_to=(1, 4, 5), step=0.0039)
    loop.ramp_rates = {4: 248.0}
    free = Budget(cpus=4, ram_bytes=2**40, shm_bytes=2**40)
    tuner = make_tuner(loop, limits=lambda: Limits(seconds=20, most_workers=32, free=free))
    tuner.tune()
    (said,) = (finding for finding in judge(tuner.suite) if finding.code == "tune.skipped")
    assert "num_workers=5 was not tried: the time budget held no more" in said.title
    assert said.severity == "info"
    assert "--budget" in said.remedy


def test_one_round_confirms_nothing() -> None:
    suite = tuned_suite(Loop())
    once = tuple(
        msgspec.structs.replace(b, runs=b.runs[:1]) if b.part == RACE else b
        for b in suite.benchmarks
    )
    suite = msgspec.structs.replace(suite, benchmarks=once)
    assert answer(read(suite)).kind == "unconfirmed"
    assert recommend(suite) is None


def test_few_confirmations_are_told() -> None:
    codes = found(small_gain(child_seconds=9.0), seconds=40)
    assert "2 runs of each instead of 5" in codes["tune.few_confirmations"].title
    assert "tune.few_confirmations" not in found(small_gain())


def test_two_confirmations_of_a_gain_beyond_doubt_are_not_few() -> None:
    assert "tune.few_confirmations" not in found(Loop())
    advised = recommend(tuned_suite(Loop()))
    assert advised is not None
    assert advised.confirmations == 2


def test_a_gain_is_beyond_doubt_when_each_of_two_rounds_shows_it() -> None:
    own = entry(0, 100, 100, own=True)
    assert beyond_doubt(entry(4, 120, 150), own)
    assert not beyond_doubt(entry(4, 119, 150), own)
    assert not beyond_doubt(entry(4, 300), own)


@pytest.mark.parametrize(
    ("rates", "kind"),
    [
        ((108, 104), "undecided"),
        ((108, 107), "gain"),  # two rounds that agree as closely as 12.7 standard errors ask
        ((108, 105, 109), "gain"),
        ((112, 104, 104), "undecided"),
        ((120, 150), "gain"),
        ((108, 104, 110, 101, 107), "gain"),
    ],
)
def test_few_rounds_have_to_agree(rates: tuple[float, ...], kind: str) -> None:
    suite = tuned_suite(Loop())
    own, other = (each for each in read(suite).race if len(each.rates) > 1)
    entries = {own.settings: (100.0,) * len(rates), other.settings: rates}
    raced = tuple(
        msgspec.structs.replace(
            b,
            runs=tuple(
                msgspec.structs.replace(
                    b.runs[0], repeat=number, windows=(window(1, rate / ITEMS, batches=400),)
                )
                for number, rate in enumerate(entries[b.settings])
            ),
        )
        for b in suite.benchmarks
        if b.part == RACE and b.settings in entries
    )
    others = tuple(b for b in suite.benchmarks if b.part != RACE)
    suite = msgspec.structs.replace(suite, benchmarks=(*others, *raced))
    assert answer(read(suite)).kind == kind


@pytest.mark.parametrize(("wait", "kind"), [(0.03, "undecided"), (0.3, "gain")])
def test_a_gain_beyond_what_was_waited_is_not_the_loaders(wait: float, kind: str) -> None:
    suite = tuned_suite(Loop(fetch=0.001, step=0.01))
    (look,) = (b for b in suite.benchmarks if b.part == LOOK)
    waits = window(0, 100, "own", step=0.01 * (1 - wait))
    cached = window(0, 130, "cached", step=1 / 130)  # as if other programs had ended by then
    run = msgspec.structs.replace(look.runs[0], windows=(waits, cached))
    look = msgspec.structs.replace(look, runs=(run,))
    own = read(suite).own
    assert own is not None
    raced = [
        Benchmark(label="", settings=settings, part=RACE, runs=tuple(runs))
        for settings, rate in ((own, 100), (LoaderSettings(num_workers=1), 131))
        for runs in [
            [
                msgspec.structs.replace(
                    run, repeat=k, windows=(window(1, rate + k, step=0.01 * (1 - wait)),)
                )
                for k in range(2)
            ]
        ]
    ]
    suite = msgspec.structs.replace(suite, benchmarks=(look, *raced))
    assert answer(read(suite)).kind == kind
    titles = [each.title for each in judge(suite) if each.code == "tune.undecided"]
    assert len(titles) == (kind == "undecided")
    assert all("the step itself has changed" in title for title in titles)


def test_a_worker_that_died_is_told_with_the_level_and_the_rest_is_recommended() -> None:
    loop = Loop(breaks_at=6, ramp_to=(1, 5, 6), own=make_facts(2, length=LONG))
    codes = found(loop)
    assert codes["tune.failed"].title == "With 6 workers, a run failed: A worker was killed."
    advised = recommend(tuned_suite(Loop(breaks_at=6, ramp_to=(1, 5, 6))))
    assert advised is not None
    assert advised.settings.num_workers == 5


def test_a_loader_that_cannot_be_ramped_is_no_failure() -> None:
    assert "tune.failed" not in found(Loop(rampable=False), seconds=200)


def test_epochs_of_other_length_are_not_compared() -> None:
    loop = Loop(own=make_facts(0, iterable=True))
    outcome = loop._outcome

    def doubled(*arguments: Any, **changes: Any) -> Any:
        made = outcome(*arguments, **changes)
        level = made.windows[0].level if made.windows else 0
        use = msgspec.structs.replace(
            made.used.loaders[0], batches=100 * max(1, level), epochs=1, complete_epochs=1
        )
        import dataclasses

        return dataclasses.replace(made, used=msgspec.structs.replace(made.used, loaders=(use,)))

    loop._outcome = doubled  # type: ignore[method-assign]
    suite = tuned_suite(loop, seconds=200)
    codes = {finding.code: finding for finding in judge(suite)}
    assert codes["correctness.iterable_duplicates"].severity == "error"
    assert recommend(suite) is None


def test_too_little_memory_for_more_workers_is_told() -> None:
    suite = tuned_suite(Loop())
    (ramp,) = (b for b in suite.benchmarks if b.part == RAMP)
    run = ramp.runs[0]
    short = msgspec.structs.replace(run.choices[-1], reason="memory is short: 3 MiB are free")
    run = msgspec.structs.replace(run, choices=(*run.choices[:-1], short))
    suite = msgspec.structs.replace(
        suite,
        benchmarks=tuple(
            msgspec.structs.replace(b, runs=(run,)) if b is ramp else b for b in suite.benchmarks
        ),
    )
    assert any(finding.code == "tune.memory" for finding in judge(suite))


def test_nothing_measured_says_nothing() -> None:
    assert judge(make_tune()) == ()
    assert recommend(make_tune()) is None
    assert answer(read(make_tune())).kind == "nothing"


def test_levels_of_an_earlier_tune_serve_as_well() -> None:
    loop = Loop(own=make_facts(2, length=LONG))
    tuner = make_tuner(loop, earlier=tuned_suite(Loop(own=make_facts(2, length=LONG))))
    tuner.tune()
    assert [b.part for b in tuner.suite.benchmarks] == ["look", EARLIER, RACE, RACE]
    advised = recommend(tuner.suite)
    assert advised is not None
    assert advised.settings.num_workers == 5


def test_the_line_names_what_is_set_and_nothing_else() -> None:
    settings = LoaderSettings(num_workers=4, prefetch_factor=8, pin_memory=True)
    assert line(settings) == "num_workers=4, prefetch_factor=8, pin_memory=True"
