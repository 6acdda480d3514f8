from __future__ import annotations

import pytest

from builders import (
    MIB,
    make_benchmark,
    make_epoch,
    make_facts,
    make_failed_run,
    make_peaks,
    make_run,
    make_suite,
)
from feedrate.analysis.summary import Point, by_condition, compare_rates, summarize
from feedrate.records import Benchmark


def point(benchmark: Benchmark) -> Point:
    (made,) = summarize(make_suite([benchmark]))
    return made


def median(figure: object) -> float:
    assert figure is not None
    return figure.median  # type: ignore[attr-defined, no-any-return]


def test_points_come_in_the_order_of_the_suite() -> None:
    suite = make_suite(rates={4: [1.0], 0: [2.0], 2: [3.0]})
    assert [p.workers for p in summarize(suite)] == [4, 0, 2]


def test_later_epochs_and_the_first_are_never_mixed() -> None:
    made = point(make_benchmark(runs=[make_run(100.0, cold_rate=40.0, items=200, later_epochs=3)]))
    assert median(made.rates) == pytest.approx(100.0)
    assert median(made.cold_rates) == pytest.approx(40.0)
    assert median(made.epoch_seconds) == pytest.approx(2.0)
    assert median(made.cold_seconds) == pytest.approx(5.0)


def test_one_value_for_each_successful_run() -> None:
    runs = [
        make_run(100.0, repeat=0),
        make_failed_run(),
        make_run(110.0, repeat=2),
        make_run(error=make_failed_run("It hung.").error),
    ]
    made = point(make_benchmark(runs=runs))
    assert made.rates is not None
    assert made.rates.values == pytest.approx((100.0, 110.0))
    assert made.repeats == (0, 2)
    assert [error.sentence for error in made.errors][1] == "It hung."


def test_a_run_that_ended_after_its_first_epoch_is_left_out_of_the_later_rate() -> None:
    made = point(make_benchmark(runs=[make_run(100.0), make_run(100.0, later_epochs=0)]))
    assert made.kind == "warm"
    assert made.rates is not None
    assert made.rates.values == pytest.approx((100.0,))
    assert made.cold_rates is not None
    assert made.cold_rates.n == 2


@pytest.mark.parametrize(
    ("workers", "persistent", "epochs", "kind"),
    [
        (0, False, 1, "warm"),
        (2, True, 1, "warm"),
        (2, False, 1, "restarted"),
        (2, True, 0, "cold_only"),
        (0, False, 0, "cold_only"),
    ],
)
def test_kind(workers: int, persistent: bool, epochs: int, kind: str) -> None:
    facts = make_facts(workers, persistent_workers=persistent)
    run = make_run(num_workers=workers, later_epochs=epochs, facts=facts)
    assert point(make_benchmark(workers, runs=[run])).kind == kind


def test_what_the_loader_really_had_counts_before_what_was_asked() -> None:
    run = make_run(facts=make_facts(2, persistent_workers=False))
    assert point(make_benchmark(2, runs=[run], persistent_workers=True)).kind == "restarted"


def test_the_first_epoch_stands_in_where_there_is_no_other() -> None:
    made = point(make_benchmark(runs=[make_run(cold_rate=40.0, later_epochs=0)]))
    assert made.rates == made.cold_rates
    assert median(made.rates) == pytest.approx(40.0)
    assert made.epoch_seconds is None
    assert made.wait_share is not None


def test_no_items_is_no_rate() -> None:
    empty = make_epoch(items=0, batches=0)
    made = point(make_benchmark(runs=[make_run(epochs=(empty, empty))]))
    assert made.rates is None
    assert made.repeats == ()
    assert made.step_seconds is None
    assert median(made.cold_seconds) == 1.0


def test_nothing_successful_leaves_everything_unknown() -> None:
    made = point(make_benchmark(runs=[make_failed_run()], persistent_workers=True))
    assert made.rates is None
    assert made.startup is None
    assert made.peak_total is None
    assert made.kind == "warm"
    assert len(made.errors) == 1


def test_steps_waits_and_cpu_are_of_the_later_epochs() -> None:
    cold = make_epoch(wait_share=1.0, main_cpu_seconds=100.0)
    later = make_epoch(
        seconds=2.0, batches=10, wait_share=0.5, main_cpu_seconds=1.0, worker_cpu_seconds=3.0
    )
    made = point(make_benchmark(runs=[make_run(epochs=(cold, later))]))
    assert median(made.wait_share) == pytest.approx(0.5)
    assert median(made.step_seconds) == pytest.approx(0.1)
    assert median(made.cpu_per_batch) == pytest.approx(0.4)


def test_without_workers_only_the_main_process_uses_cpu() -> None:
    later = make_epoch(batches=10, main_cpu_seconds=1.0, worker_cpu_seconds=None)
    run = make_run(epochs=(later, later))
    assert median(point(make_benchmark(0, runs=[run])).cpu_per_batch) == pytest.approx(0.1)
    assert point(make_benchmark(2, runs=[run])).cpu_per_batch is None


def test_peaks_are_the_highest_of_all_runs() -> None:
    runs = [
        make_run(peaks=make_peaks(main_bytes=300 * MIB, worker_bytes=10 * MIB, shm_bytes=None)),
        make_run(peaks=make_peaks(main_bytes=200 * MIB, worker_bytes=90 * MIB, shm_bytes=7)),
        make_run(peaks=None),
        make_failed_run(peaks=make_peaks(total_bytes=900 * MIB, shm_bytes=None)),
    ]
    made = point(make_benchmark(runs=runs))
    assert made.peak_main == 300 * MIB
    assert made.peak_workers == 100 * MIB
    assert made.peak_total == 900 * MIB
    assert made.peak_shm == 7
    assert made.memory_kind == "pss"


def test_descriptors_of_main_process_and_workers_are_added() -> None:
    both = make_peaks(main_descriptors=20, worker_descriptors=30)
    half = make_peaks(workers=2, main_descriptors=90, worker_descriptors=None)
    alone = make_peaks(workers=0, main_descriptors=40, worker_descriptors=None)

    def descriptors(peaks: object) -> int | None:
        return point(make_benchmark(runs=[make_run(peaks=peaks)])).peak_descriptors

    assert descriptors(both) == 50
    assert descriptors(half) is None
    assert descriptors(alone) == 40


def test_conditions_are_kept_apart_in_order() -> None:
    suite = make_suite(
        [
            make_benchmark(n, [1.0], condition=name)
            for n in (0, 2)
            for name in ("light", "augmented")
        ]
    )
    grouped = by_condition(summarize(suite))
    assert list(grouped) == ["light", "augmented"]
    assert [p.workers for p in grouped["light"]] == [0, 2]


def test_the_same_repeats_of_one_series_are_paired() -> None:
    a, b = summarize(make_suite(rates={1: [10.0, 11.0], 2: [20.0, 22.0]}))
    made = compare_rates(b, a)
    assert made is not None
    assert made.paired
    assert made.value == pytest.approx(2.0)


def test_other_repeats_or_another_series_are_not_paired() -> None:
    full = [make_run(10.0), make_run(11.0), make_run(12.0)]
    holed = [full[0], make_failed_run(), full[2]]
    other_hole = [full[0], full[1], make_failed_run()]
    a, b, c = summarize(
        make_suite(
            [
                make_benchmark(1, runs=holed),
                make_benchmark(2, runs=other_hole),
                make_benchmark(4, runs=holed, part="repeated"),
            ]
        )
    )
    for pair in ((a, b), (a, c)):
        made = compare_rates(*pair)
        assert made is not None
        assert not made.paired


def test_a_point_without_a_rate_cannot_be_compared() -> None:
    a, b = summarize(make_suite([make_benchmark(1, [1.0]), make_benchmark(2, [])]))
    assert compare_rates(a, b) is None
