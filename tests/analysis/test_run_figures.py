from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_epoch, make_facts, make_failed_run, make_run
from feedrate.analysis import runs as of


def test_rate_is_items_over_seconds_of_all_epochs() -> None:
    epochs = (make_epoch(items=100, seconds=1.0), make_epoch(items=100, seconds=3.0))
    assert of.rate(epochs) == 50.0


@pytest.mark.parametrize(
    "epoch",
    [make_epoch(items=0, batches=0, seconds=1.0), make_epoch(items=5, seconds=0.0)],
)
def test_no_items_or_no_time_is_no_rate(epoch: of.Epoch) -> None:
    assert of.rate((epoch,)) is None


def test_no_epochs_have_no_figures() -> None:
    assert of.rate(()) is None
    assert of.wait_share(()) is None
    assert of.step_seconds(()) is None
    assert of.cpu_per_batch((), with_workers=True) is None
    assert of.mean_seconds(()) is None


def test_wait_share_counts_the_time_blocked() -> None:
    epochs = (make_epoch(seconds=1.0, wait_share=1.0), make_epoch(seconds=3.0, wait_share=0.0))
    assert of.wait_share(epochs) == pytest.approx(0.25)


def test_cpu_of_main_process_and_workers_is_added() -> None:
    epoch = make_epoch(batches=10, main_cpu_seconds=1.0, worker_cpu_seconds=2.0)
    assert of.cpu_per_batch((epoch,), with_workers=True) == pytest.approx(0.3)


def test_half_of_the_cpu_time_is_no_figure() -> None:
    half = make_epoch(batches=10, main_cpu_seconds=1.0, worker_cpu_seconds=None)
    assert of.cpu_per_batch((half,), with_workers=True) is None
    assert of.cpu_per_batch((half,), with_workers=False) == pytest.approx(0.1)


def test_first_batch_counts_iter_and_the_first_wait() -> None:
    epoch = make_epoch(seconds=2.0, batches=4, wait_share=0.5, begin_seconds=0.6)
    assert of.first_batch_seconds(epoch) == pytest.approx(0.6 + 0.1)


def test_an_epoch_without_batches_took_all_its_time_to_find_that_out() -> None:
    epoch = make_epoch(seconds=2.0, batches=0, items=0, begin_seconds=0.5)
    assert of.first_batch_seconds(epoch) == pytest.approx(2.0)


def test_whole_epochs_stay_as_measured() -> None:
    run = make_run(100.0, cold_rate=50.0, items=200)
    assert of.epoch_times(run) == of.EpochTimes(cold=4.0, later=2.0, extrapolated=False)


def test_a_failed_run_has_no_epoch_times() -> None:
    assert of.epoch_times(make_failed_run()) is None


def test_one_epoch_leaves_the_later_ones_unknown() -> None:
    times = of.epoch_times(make_run(later_epochs=0))
    assert times is not None
    assert times.later is None


def test_epochs_cut_short_are_completed_at_the_settled_pace() -> None:
    # 10 of 100 batches, 0.1 s each; the first epoch starts its workers for 3 s before
    cold = make_epoch(seconds=4.0, batches=10, wait_share=0.775, begin_seconds=3.0, complete=False)
    later = make_epoch(seconds=1.0, batches=10, wait_share=0.0, complete=False)
    run = make_run(epochs=(cold, later), facts=make_facts(length=100))
    times = of.epoch_times(run)
    assert times is not None
    assert times.extrapolated
    assert times.cold == pytest.approx(4.0 + 90 * 0.1)
    assert times.later == pytest.approx(1.0 + 90 * 0.1)


def test_the_backlog_of_an_accelerator_grows_with_the_epoch() -> None:
    # 0.1 s a batch in the loop, and as much again on the device, waited for at the end
    cut = make_epoch(seconds=2.0, batches=10, wait_share=0.5, end_seconds=1.0, complete=False)
    times = of.epoch_times(make_run(epochs=(cut, cut), facts=make_facts(length=100)))
    assert times is not None
    assert times.later == pytest.approx(2.0 + 90 * 0.2)


def test_an_epoch_of_unknown_length_stays_as_measured() -> None:
    cut = make_epoch(complete=False)
    run = make_run(epochs=(cut, cut), facts=make_facts(length=None))
    assert of.epoch_times(run) == of.EpochTimes(cold=1.0, later=1.0, extrapolated=False)


def test_a_single_batch_gives_its_own_pace() -> None:
    cut = make_epoch(seconds=2.0, batches=1, complete=False)
    run = make_run(epochs=(cut, cut), facts=make_facts(length=3))
    times = of.epoch_times(run)
    assert times is not None
    assert times.later == pytest.approx(6.0)


@given(length=st.integers(10, 1000), begin=st.floats(0, 5), wait=st.floats(0, 1))
def test_extrapolation_only_adds(length: int, begin: float, wait: float) -> None:
    seconds = 1.0 + begin
    cut = make_epoch(
        seconds=seconds,
        batches=10,
        wait_share=(begin + wait) / seconds,
        begin_seconds=begin,
        complete=False,
    )
    times = of.epoch_times(make_run(epochs=(cut, cut), facts=make_facts(length=length)))
    assert times is not None
    assert times.cold >= seconds
    assert times.later == times.cold
