from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builders import (
    make_benchmark,
    make_epoch,
    make_facts,
    make_failed_run,
    make_run,
    make_suite,
)
from feedrate.analysis.costs import Costs, costs, paid_back_from, total
from feedrate.analysis.stats import Summary, summary
from feedrate.analysis.summary import summarize
from feedrate.records import Run

SECONDS = st.floats(0.01, 1000)


def of_runs(*runs: Run) -> Costs | None:
    (point,) = summarize(make_suite([make_benchmark(2, runs=runs)]))
    return costs(point)


def cost(cold: float, later: float | None) -> Costs:
    return Costs(
        repeats=(0,),
        cold=Summary(values=(cold,)),
        later=summary([later]) if later is not None else None,
        extrapolated=False,
    )


def test_costs_are_whole_epochs_of_each_run() -> None:
    made = of_runs(
        make_run(100.0, cold_rate=50.0, items=200),
        make_failed_run(),
        make_run(200.0, cold_rate=100.0, items=200),
    )
    assert made is not None
    assert made.cold.values == pytest.approx((4.0, 2.0))
    assert made.later is not None
    assert made.later.values == pytest.approx((2.0, 1.0))
    assert made.repeats == (0, 2)


def test_a_run_that_ended_early_is_left_out() -> None:
    made = of_runs(make_run(later_epochs=0), make_run())
    assert made is not None
    assert made.cold.n == 1


def test_one_epoch_has_no_later_costs() -> None:
    made = of_runs(make_run(later_epochs=0))
    assert made is not None
    assert made.later is None
    assert total(made, 1) == made.cold
    assert total(made, 2) is None


def test_nothing_measured_costs_nothing_known() -> None:
    assert of_runs(make_failed_run()) is None


def test_total_adds_the_later_epochs_run_by_run() -> None:
    made = Costs(
        repeats=(0, 1),
        cold=Summary(values=(3.0, 5.0)),
        later=Summary(values=(1.0, 2.0)),
        extrapolated=False,
    )
    job = total(made, 10)
    assert job is not None
    assert job.values == (12.0, 23.0)


@pytest.mark.parametrize(
    ("dear", "cheap", "epoch"),
    [
        # 5 s dearer at the start, 1 s gained in each later epoch: even at the end of the sixth
        (cost(10, 2), cost(5, 3), 6),
        (cost(10, 2), cost(5.5, 3), 6),
        (cost(4, 2), cost(5, 3), 1),
        (cost(5, 2), cost(5, 3), 1),
        (cost(10, 3), cost(5, 3), None),
        (cost(10, 4), cost(5, 3), None),
        (cost(10, None), cost(5, None), None),
    ],
)
def test_paid_back_from(dear: Costs, cheap: Costs, epoch: int | None) -> None:
    assert paid_back_from(dear, cheap) == epoch


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_paid_back_is_the_first_epoch_without_loss(
    cold: float, later: float, other_cold: float, other_later: float
) -> None:
    dear, cheap = cost(cold, later), cost(other_cold, other_later)
    epoch = paid_back_from(dear, cheap)
    assume(epoch is None or epoch < 1e6)  # beyond, rounding decides

    def behind(epochs: int) -> float:
        mine, theirs = total(dear, epochs), total(cheap, epochs)
        assert mine is not None
        assert theirs is not None
        return (mine.median - theirs.median) / theirs.median

    if epoch is None:
        assert behind(1) > 0
        assert behind(1000) > -1e-9
    else:
        assert behind(epoch) <= 1e-9
        assert epoch == 1 or behind(epoch - 1) > -1e-9


def test_costs_say_that_epochs_were_completed() -> None:
    cut = make_epoch(complete=False)
    made = of_runs(make_run(epochs=(cut, cut), facts=make_facts(length=2 * cut.batches)))
    assert made is not None
    assert made.extrapolated
    assert made.cold.median == pytest.approx(2 * cut.seconds)
