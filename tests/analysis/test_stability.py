from __future__ import annotations

from collections.abc import Sequence

import pytest
from found import evidence, none, one
from scipy.stats import theilslopes

from builders import (
    make_benchmark,
    make_epoch,
    make_facts,
    make_metadata,
    make_run,
    make_suite,
)
from feedrate.records import Finding, Suite


def of_one(rates: Sequence[float]) -> Suite:
    return make_suite(rates={2: rates})


def stability(suite: Suite) -> Finding | None:
    """Return the only finding of the family, if there is one."""
    from feedrate.analysis.verdicts import judge

    found = [finding for finding in judge(suite) if finding.code.startswith("stability.")]
    assert len(found) < 2, [finding.title for finding in found]
    return found[0] if found else None


def test_steady_runs_have_nothing_to_say() -> None:
    assert stability(of_one([100, 101, 99, 100.5, 99.5])) is None


def test_a_slow_first_run_is_no_outlier_too() -> None:
    made = stability(of_one([80, 100, 101, 99, 100]))
    assert made is not None
    assert made.code == "stability.slow_first_run"
    assert made.title == "The first run of 2 workers stands out: 20 % below the median."
    # the median is the same without it, so nothing that is said rests on it
    assert made.severity == "info"
    assert evidence(made, "rate over the median, 2 workers").value == pytest.approx(0.8)


def test_a_slow_first_run_that_moves_the_median_is_a_warning() -> None:
    made = stability(of_one([80, 100, 107, 107.5]))
    assert made is not None
    assert made.code == "stability.slow_first_run"
    # 103.5 with it, 107 without
    assert made.severity == "warning"


def test_several_first_runs() -> None:
    suite = make_suite(rates={1: [80, 100, 101, 99, 100], 2: [140, 200, 202, 199, 200]})
    made = stability(suite)
    assert made is not None
    assert made.title == (
        "The first run of 1 worker and 2 workers stands out: 30 % below the median at most."
    )


def test_outliers() -> None:
    made = stability(of_one([100, 101, 140, 99, 100]))
    assert made is not None
    assert made.code == "stability.outliers"
    assert made.title == "1 run stands out from the others of 2 workers, 40 % from the median."
    assert made.severity == "info"
    assert "--repeats" in made.remedy


def test_outliers_of_several_settings() -> None:
    suite = make_suite(rates={1: [100, 101, 140, 99, 100], 2: [200, 202, 199, 150, 200]})
    made = stability(suite)
    assert made is not None
    assert made.title == (
        "2 runs stand out from the others of 1 worker and 2 workers, 40 % from the median at most."
    )


@pytest.mark.parametrize("complete", [True, False])
def test_short_windows(complete: bool) -> None:
    epoch = make_epoch(seconds=0.2, complete=complete)
    runs = [make_run(epochs=(make_epoch(), epoch, epoch), facts=make_facts(2))] * 2
    made = stability(make_suite([make_benchmark(2, runs=runs), make_benchmark(1, [100.0])]))
    assert made is not None
    assert made.code == "stability.short_windows"
    assert made.severity == "warning"
    assert made.title == "The rates of 2 workers come from short measurements, 400 ms at the least."
    assert made.remedy == (
        "Measure more of these short epochs: raise epochs (--epochs)."
        if complete
        else "Measure more batches: raise max_batches (--max-batches)."
    )


def test_several_short_epochs_are_one_long_measurement() -> None:
    epoch = make_epoch(seconds=0.2)
    assert stability(make_suite([make_benchmark(2, runs=[make_run(epochs=(epoch,) * 4)])])) is None


def test_many_short_settings_are_counted() -> None:
    suite = make_suite(rates={n: [1e6] for n in range(6)})
    assert one(suite, "stability.short_windows").title.startswith("The rates of 6 of 6 settings")


def drifting(change: float, counts: Sequence[int] = (1, 2, 4), repeats: int = 3) -> Suite:
    """Return a suite in rotated order whose rates change by so much in a straight line."""
    plain = make_suite(rates={count: [100.0] * repeats for count in counts})
    last = len(counts) * repeats - 1
    benchmarks = [
        make_benchmark(
            benchmark.settings.num_workers,
            [
                100 * benchmark.settings.num_workers * (1 + change * run.position / last)
                for run in benchmark.runs
            ],
        )
        for benchmark in plain.benchmarks
    ]
    return make_suite(benchmarks)


@pytest.mark.parametrize(("change", "word"), [(-0.2, "slower"), (0.2, "faster")])
def test_drift(change: float, word: str) -> None:
    made = stability(drifting(change))
    assert made is not None
    assert made.code == "stability.drift"
    assert made.severity == "warning"
    assert f"The machine became {word} while it was measured" in made.title
    assert made.condition == ""
    (total,) = made.evidence
    # each setting is held against its own median, which lies in the middle of the drift
    assert total.value == pytest.approx(change / (1 + change / 2), rel=0.1)
    assert total.low is not None
    assert total.high is not None
    assert min(abs(total.low), abs(total.high)) > 0


def test_drift_is_the_theil_sen_slope_of_scipy() -> None:
    suite = drifting(-0.2)
    places = [run.position for benchmark in suite.benchmarks for run in benchmark.runs]
    rates = []
    for benchmark in suite.benchmarks:
        own = [run.epochs[1].items / run.epochs[1].seconds for run in benchmark.runs]
        rates += [rate / sorted(own)[1] for rate in own]
    slope, _, low, high = theilslopes(rates, places)
    (total,) = one(suite, "stability.drift").evidence
    assert total.value == pytest.approx(8 * slope)
    assert (total.low, total.high) == pytest.approx((8 * low, 8 * high))


def test_a_drift_within_the_tolerance_does_not_matter() -> None:
    assert stability(drifting(-0.02)) is None


def test_few_or_single_runs_show_no_drift() -> None:
    assert stability(drifting(-0.2, counts=(1, 2), repeats=3)) is None
    assert stability(drifting(-0.2, counts=range(1, 10), repeats=1)) is None


def test_scatter_is_no_drift() -> None:
    # a slope of −6 % from the first run to the last, but its interval reaches from −18 % to 4 %
    suite = make_suite(rates={1: [101, 98, 106, 95, 101], 2: [96, 106, 100, 99, 93]})
    assert none(suite, "stability.drift")


def test_a_busy_machine() -> None:
    busy = {"seconds": 10.0, "other_cpu_seconds": 3.0}
    suite = make_suite(
        [make_benchmark(n, [100.0], run_fields=busy) for n in (1, 2)],
        metadata=make_metadata(usable_cpus=2.0),
    )
    made = one(suite, "stability.machine_busy")
    assert made.severity == "warning"
    assert made.title == ("Other programs took 15 % of the usable CPUs while this was measured.")
    (share,) = made.evidence
    assert share.value == pytest.approx(0.15)


@pytest.mark.parametrize(
    "fields",
    [
        {"seconds": 10.0, "other_cpu_seconds": 1.9},
        {"seconds": None, "other_cpu_seconds": 3.0},
        {"seconds": 10.0, "other_cpu_seconds": None},
    ],
)
def test_a_quiet_machine_or_one_that_does_not_tell(fields: dict[str, float | None]) -> None:
    assert stability(make_suite([make_benchmark(2, [100.0], run_fields=fields)])) is None
