from __future__ import annotations

from collections.abc import Sequence

import pytest
from found import evidence, none, one

from builders import make_benchmark, make_epoch, make_facts, make_run, make_suite
from feedrate.records import Benchmark, Finding, Run

CODE = "sweep.persistent_workers"
KEPT = (2.0, 2.01, 1.99, 2.005, 1.995)


def run(later: float, *, kept: bool, again: float = 0.5) -> Run:
    """Return a run whose later epochs take so long, ``again`` of it to the first batch."""
    cold = make_epoch(seconds=4.0)
    waits = again + 0.1 * later
    # the first of the 20 equal waits comes on top of the beginning
    begin = (again - waits / 20) * 20 / 19
    epoch = make_epoch(seconds=later, batches=20, wait_share=waits / later, begin_seconds=begin)
    return make_run(epochs=(cold, epoch), facts=make_facts(2, persistent_workers=kept))


def benchmark(seconds: Sequence[float], *, kept: bool) -> Benchmark:
    return make_benchmark(2, runs=[run(s, kept=kept) for s in seconds], persistent_workers=kept)


def judged(without: Sequence[float], kept: Sequence[float] = KEPT) -> Finding:
    return one(make_suite([benchmark(without, kept=False), benchmark(kept, kept=True)]), CODE)


def longer(factor: float) -> list[float]:
    return [factor * seconds for seconds in KEPT]


def test_what_it_saves_an_epoch() -> None:
    made = judged(longer(1.5))
    assert made.title == (
        "With 2 workers persistent_workers saves 1.00 s an epoch: later epochs take 2.00 s with it "
        "and 3.00 s without."
    )
    assert made.remedy == "Use persistent_workers=True."
    assert evidence(made, "saved by kept workers").value == pytest.approx(1.0)
    loss = evidence(made, "later epoch without kept workers, over that with them")
    assert (loss.value, loss.low, loss.high) == pytest.approx((1.5, 1.5, 1.5))


def test_it_may_cost() -> None:
    made = judged(longer(0.8))
    assert made.title.startswith("With 2 workers persistent_workers costs 400 ms an epoch: ")
    assert made.remedy == "Leave persistent_workers off."


def test_no_difference() -> None:
    made = judged(longer(1.01))
    assert made.title == (
        "With 2 workers persistent_workers makes no difference: later epochs take 2.00 s with it "
        "and 2.02 s without, the same within 3 %."
    )


def test_undecided() -> None:
    made = judged([1.8, 2.3, 2.02, 1.9, 2.2])
    assert made.title == (
        "With 2 workers it is undecided whether persistent_workers saves time: later epochs take "
        "2.00 s with it and 2.02 s without."
    )
    assert made.remedy == "Repeat each setting 10 times (--repeats 10)."


def test_single_runs() -> None:
    made = judged([3.0], [2.0])
    assert made.title == (
        "From one run each, with 2 workers later epochs take 2.00 s with persistent_workers and "
        "3.00 s without."
    )
    assert made.remedy == "Repeat each setting 5 times (--repeats 5)."


def test_measured_without_only() -> None:
    made = one(make_suite([benchmark(KEPT, kept=False)]), CODE)
    assert made.title == (
        "With 2 workers each epoch starts them again and waits 500 ms for its first batch, 25 % of "
        "the epoch: persistent_workers saves that at most."
    )
    assert made.remedy == (
        "Measure what it saves: persistent_workers off and on (--persistent-workers off,on)."
    )
    assert evidence(made, "share of the epoch").value == pytest.approx(0.25)


def test_a_share_below_the_tolerance_needs_no_remedy() -> None:
    runs = [run(2.0, kept=False, again=0.05)] * 5
    suite = make_suite([make_benchmark(2, runs=runs, persistent_workers=False)])
    assert one(suite, CODE).remedy == ""


def test_epochs_cut_short_are_completed() -> None:
    short = make_epoch(seconds=1.0, wait_share=0.6, begin_seconds=0.5, complete=False)
    cut = make_run(epochs=(short, short), facts=make_facts(2, persistent_workers=False, length=220))
    made = one(make_suite([make_benchmark(2, runs=[cut] * 5)]), CODE)
    # 200 batches are missing, of 20 ms step and 5 ms wait each: 1 s of 20 batches becomes 6 s
    assert evidence(made, "share of the epoch").value == pytest.approx(0.505 / 6)


def test_measured_with_only() -> None:
    runs = [run(2.0, kept=True, again=0.05)] * 5
    made = one(make_suite([make_benchmark(2, runs=runs)]), CODE)
    assert made.title == (
        "With 2 workers persistent_workers saves about 100 ms an epoch: the first batch comes "
        "after 150 ms where workers start, and after 50.0 ms in a later epoch, where they are "
        "there already."
    )
    assert evidence(made, "saved by kept workers, estimated").value == pytest.approx(0.1)


def test_nothing_to_say() -> None:
    assert none(make_suite(rates={0: [1.0, 1.0]}), CODE)
    cold = make_run(later_epochs=0)
    assert none(make_suite([make_benchmark(2, runs=[cold])]), CODE)
    quick = make_run(startup_seconds=0.0)
    assert none(make_suite([make_benchmark(2, runs=[quick])]), CODE)


def test_settings_that_differ_in_more_are_no_pair() -> None:
    off = benchmark(KEPT, kept=False)
    on = make_benchmark(
        2, runs=[run(1.0, kept=True, again=0.05)] * 5, persistent_workers=True, prefetch_factor=4
    )
    made = one(make_suite([off, on]), CODE)
    assert made.title.startswith("With 2 workers persistent_workers saves about")
