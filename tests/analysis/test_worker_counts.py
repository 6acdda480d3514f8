from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import MIB, make_benchmark, make_facts, make_peaks, make_run, make_suite

SPREAD = (0.995, 1.0, 1.005, 0.998, 1.002)


def steady(rate: float) -> list[float]:
    return [rate * factor for factor in SPREAD]


def test_decided_plateau() -> None:
    suite = make_suite(rates={1: steady(50), 2: steady(100), 4: steady(101)})
    made = one(suite, "sweep.plateau_start")
    assert made.title == (
        "The plateau starts at 2 workers: more workers gain at most 1.0 % (with 4; 95 % interval "
        "1.0 % to 1.0 %), less than the tolerance of 3 %."
    )
    assert made.severity == "info"
    assert made.remedy.startswith("Use at most num_workers=2:")
    assert evidence(made, "plateau start").value == 2
    beyond = evidence(made, "best rate beyond, over the start's")
    assert beyond.value == pytest.approx(1.01)
    assert beyond.low == pytest.approx(1.01)
    below = evidence(made, "best rate above the next lower count, over its own")
    assert below.value == pytest.approx(2.02)


def test_more_workers_that_lose_gain_nothing() -> None:
    made = one(make_suite(rates={1: steady(100), 2: steady(90)}), "sweep.plateau_start")
    assert "more workers gain nothing (−10 % with 2;" in made.title
    assert "less than the tolerance" not in made.title


def test_single_runs_say_so_and_ask_for_repeats() -> None:
    made = one(make_suite(rates={1: [50], 2: [100], 4: [101]}), "sweep.plateau_start")
    assert made.title == (
        "From one run each, the plateau starts at 2 workers: more workers gain at most 1.0 % "
        "(with 4), less than the tolerance of 3 %."
    )
    assert made.remedy == "Repeat each setting 5 times (--repeats 5)."


def test_few_runs_are_named() -> None:
    rates = {1: steady(50)[:3], 2: steady(100)[:3], 4: steady(101)[:3]}
    made = one(make_suite(rates=rates), "sweep.plateau_start")
    assert made.title.startswith("From 3 runs each, the plateau starts at 2 workers")


def test_scattered_runs_leave_the_start_undecided() -> None:
    scattered = [95, 108, 101, 99, 112]
    made = one(
        make_suite(rates={1: steady(50), 2: steady(100), 4: scattered}), "sweep.plateau_start"
    )
    assert made.title.startswith(
        "The plateau seems to start at 2 workers, but the runs do not settle it: more workers gain "
        "at most 1.0 % (with 4; 95 % interval −"
    )
    assert made.remedy == "Repeat each setting 10 times (--repeats 10)."


def test_an_undecided_gain_from_below_is_the_one_named() -> None:
    scattered = [97, 90, 96, 100.9, 85]
    made = one(
        make_suite(rates={1: scattered, 2: steady(100), 4: steady(100)}), "sweep.plateau_start"
    )
    assert "do not settle it: over 1 worker, more gain 4.2 % (95 % interval " in made.title


def test_a_rising_curve_has_no_plateau() -> None:
    made = one(
        make_suite(rates={1: steady(50), 2: steady(100), 4: steady(190)}), "sweep.plateau_start"
    )
    assert made.title.startswith(
        "No plateau was reached: the most workers that were measured, 4, gain 90 % (95 % interval"
    )
    assert "do not settle" not in made.title
    assert made.remedy == "Measure more workers (--workers 4,6,8)."


def test_a_rising_curve_of_scattered_runs_says_what_is_open() -> None:
    rates = {1: steady(100), 2: [104.0, 90.0, 99.0, 120.0, 131.0]}
    made = one(make_suite(rates=rates), "sweep.plateau_start")
    assert made.title.endswith(", though the runs do not settle that this is more than 3 %.")
    assert (
        made.remedy
        == "Measure more workers (--workers 2,3,4). Repeat each setting 10 times (--repeats 10)."
    )


def test_one_count_is_no_curve() -> None:
    suite = make_suite(rates={2: steady(100)})
    assert none(suite, "sweep.plateau_start")
    assert one(suite, "sweep.fastest").title.startswith("The rate with 2 workers is 100 items/s")
    assert none(suite, "sweep.balanced")


def test_fastest_tells_the_same_from_what_may_be_as_high() -> None:
    suite = make_suite(
        rates={1: steady(50), 2: [96.0, 104.0, 88.0, 101.0, 93.0], 4: steady(99), 8: steady(100)}
    )
    made = one(suite, "sweep.fastest")
    assert made.title == (
        "The rate is highest with 8 workers: 100 items/s (median of 5 runs, 99.5 to 100 items/s); "
        "with 4 workers it is the same within 3 %; with 2 workers it may be as high."
    )
    assert made.remedy == "Repeat each setting 10 times (--repeats 10)."
    assert {item.name for item in made.evidence} == {
        "fastest",
        "rate with 8 workers",
        "rate with 4 workers",
        "rate with 2 workers",
    }
    assert evidence(made, "rate with 8 workers").value == pytest.approx(100)


def test_fastest_of_single_runs_compares_values_only() -> None:
    made = one(make_suite(rates={2: [98], 4: [100], 8: [99]}), "sweep.fastest")
    assert made.title == (
        "From one run each, the rate is highest with 4 workers: 100 items/s; with 2 and 8 workers "
        "it comes within 3 %."
    )


def test_balanced_choice_tells_share_and_memory() -> None:
    suite = make_suite(rates={1: steady(50), 2: steady(92), 4: steady(100)})
    made = one(suite, "sweep.balanced")
    assert made.title == (
        "The balanced choice is 2 workers: 92 % of the rate with 4, and with 100 MiB less memory "
        "at the peak."
    )
    assert evidence(made, "share of the highest rate").value == pytest.approx(0.92)
    assert evidence(made, "peak memory with 2 workers").value == 400 * MIB
    assert evidence(made, "peak memory with 4 workers").value == 500 * MIB


def test_choices_from_single_runs_ask_for_repeats() -> None:
    suite = make_suite(rates={1: [50], 2: [92], 4: [100]})
    made = one(suite, "sweep.balanced")
    assert made.title.startswith("From one run each, the balanced choice is 2 workers: ")
    assert made.remedy.startswith("Use num_workers=2 where")
    assert made.remedy.endswith(" Repeat each setting 5 times (--repeats 5).")


def test_balanced_choice_without_less_memory_claims_none() -> None:
    peaks = {"peaks": make_peaks(total_bytes=MIB)}
    suite = make_suite([make_benchmark(n, steady(100), run_fields=peaks) for n in (1, 2)])
    assert "memory" not in one(suite, "sweep.balanced").title


def test_balanced_choice_may_be_the_fastest() -> None:
    made = one(make_suite(rates={1: steady(50), 2: steady(100)}), "sweep.balanced")
    assert made.title == (
        "The balanced choice is the fastest, 2 workers: no fewer reach 90 % of its rate."
    )
    made = one(make_suite(rates={1: steady(100), 2: steady(50)}), "sweep.balanced")
    assert made.title == "The balanced choice is the fastest, 1 worker."


def test_no_workers_can_be_as_good_as_any() -> None:
    suite = make_suite(rates={0: steady(100), 1: steady(95), 2: steady(101)})
    made = one(suite, "sweep.no_workers_best")
    assert made.title.startswith(
        "The rate without workers is as high as any: workers gain at most 1.0 % (with 2; "
    )
    assert made.remedy.startswith("Use num_workers=0")
    # the other verdicts would say the same again
    for code in ("sweep.plateau_start", "sweep.fastest", "sweep.balanced"):
        assert none(suite, code)


def test_no_workers_as_far_as_scattered_runs_tell() -> None:
    suite = make_suite(rates={0: steady(100), 2: [95, 108, 101, 99, 112]})
    assert "as high as any, as far as the runs tell: " in one(suite, "sweep.no_workers_best").title


@pytest.mark.parametrize(
    "rates", [{0: [50], 1: [100]}, {1: [100], 2: [100]}, {0: [100]}, {0: [50], 1: [50], 2: [60]}]
)
def test_no_word_about_no_workers_where_workers_help_or_nothing_is_known(
    rates: dict[int, list[float]],
) -> None:
    assert none(make_suite(rates=rates), "sweep.no_workers_best")


def test_the_curve_that_is_spoken_of_is_named() -> None:
    suite = make_suite(
        [
            make_benchmark(count, steady(rate * count), pin_memory=pin)
            for pin, rate in ((False, 50), (True, 60))
            for count in (1, 2)
        ]
    )
    for code in ("sweep.plateau_start", "sweep.fastest", "sweep.balanced", "sweep.startup"):
        assert one(suite, code).title.startswith("With pin_memory on, ")


def test_first_epochs_are_named_as_such() -> None:
    suite = make_suite(
        [
            make_benchmark(
                n,
                runs=[make_run(r, later_epochs=0, facts=make_facts(n)) for r in steady(100 * n)],
            )
            for n in (1, 2)
        ]
    )
    assert one(suite, "sweep.fastest").title.startswith(
        "By first epochs only, the rate is highest with 2 workers: 160 items/s"
    )


@pytest.mark.parametrize(("highest", "more"), [(1, "1,2,3"), (2, "2,3,4"), (8, "8,12,16")])
def test_the_counts_to_measure_next_are_distinct(highest: int, more: str) -> None:
    suite = make_suite(rates={0: steady(50), highest: steady(100)})
    remedy = one(suite, "sweep.plateau_start").remedy
    assert remedy == f"Measure more workers (--workers {more})."


def test_what_needs_workers_is_not_named_with_none() -> None:
    rates = {2: (95, 96), 4: (94, 97)}
    suite = make_suite(
        [
            make_benchmark(0, steady(100)),
            *(
                make_benchmark(2 + n, steady(rate), prefetch_factor=factor)
                for factor, pair in rates.items()
                for n, rate in enumerate(pair)
            ),
        ]
    )
    title = one(suite, "sweep.no_workers_best").title
    assert title.startswith("The rate without workers is as high as any: workers with ")
