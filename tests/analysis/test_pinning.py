from __future__ import annotations

from collections.abc import Sequence

import pytest
from found import evidence, none, one

from builders import make_benchmark, make_facts, make_metadata, make_run, make_suite
from feedrate.records import Benchmark, Finding, Suite

CODE = "sweep.pin_memory"
# benchmarks/reference/published_sweep.json, pin_memory_at_4_workers: seconds of an epoch of 60,000
# images, shortest, median and longest of five runs
PUBLISHED_OFF = (1.611, 1.634, 1.649)
PUBLISHED_ON = (1.599, 1.635, 1.669)
OFF = [99.8, 100.2, 100.0, 99.9, 100.1]


def pair(off: Sequence[float], on: Sequence[float], count: int = 4) -> list[Benchmark]:
    return [
        make_benchmark(count, off, pin_memory=False, part="pin_memory"),
        make_benchmark(count, on, pin_memory=True, part="pin_memory"),
    ]


def with_accelerator(benchmarks: Sequence[Benchmark]) -> Suite:
    return make_suite(benchmarks, metadata=make_metadata(accelerator="Example GPU"))


def judged(off: Sequence[float], on: Sequence[float]) -> Finding:
    return one(with_accelerator(pair(off, on)), CODE)


def scaled(factor: float) -> list[float]:
    return [factor * rate for rate in OFF]


def test_published_runs_make_no_difference() -> None:
    """The published conclusion. The runs' order is not published; they stand by their length."""
    made = judged([60000 / s for s in PUBLISHED_OFF], [60000 / s for s in PUBLISHED_ON])
    assert made.title.startswith("From 3 runs each, pin_memory makes no difference with 4 workers:")
    assert evidence(made, "rate with pinning over without, 4 workers").value == pytest.approx(
        1.634 / 1.635
    )


@pytest.mark.parametrize(
    ("factor", "title", "remedy"),
    [
        (1.01, "pin_memory makes no difference with 4 workers: 1.0 %", "Leave pin_memory as it is"),
        (1.10, "pin_memory is better with 4 workers: 10 %", "Use pin_memory=True."),
        (0.90, "pin_memory is worse with 4 workers: −10 %", "Use pin_memory=False."),
    ],
)
def test_clear_verdicts(factor: float, title: str, remedy: str) -> None:
    made = judged(OFF, scaled(factor))
    assert made.title.startswith(title)
    assert made.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("on", "title", "remedy"),
    [
        ([102, 105, 103, 101, 104], "pin_memory is better with 4 workers, by an und", "Use pin_"),
        ([98, 95, 97, 99, 96], "pin_memory is worse with 4 workers, by an und", "Use pin_"),
        ([90, 110, 100, 95, 107], "Whether pin_memory makes a difference with 4", "Repeat each"),
    ],
)
def test_undecided_verdicts(on: list[float], title: str, remedy: str) -> None:
    made = judged(OFF, on)
    assert made.title.startswith(title)
    assert made.remedy.startswith(remedy)
    assert "--repeats 10" in made.remedy


def test_single_runs_may_be_chance() -> None:
    made = judged([100], [120])
    assert made.title == (
        "From one run each, pin_memory changes the rate by 20 % with 4 workers, "
        "which may be chance."
    )
    assert made.remedy == "Repeat each setting 5 times (--repeats 5)."


def test_without_an_accelerator_it_cannot_matter_whatever_the_figures() -> None:
    made = one(make_suite(pair(OFF, scaled(1.5))), CODE)
    assert made.title == (
        "pin_memory cannot matter here: there is no accelerator, and torch ignores it without one."
    )
    assert evidence(made, "rate with pinning over without, 4 workers").value == pytest.approx(1.5)


def test_pinning_alone_without_an_accelerator_is_worth_a_word() -> None:
    pinned = make_run(facts=make_facts(2, pin_memory=True))
    suite = make_suite([make_benchmark(2, runs=[pinned])])
    assert one(suite, CODE).title.startswith("pin_memory cannot matter here")


def test_nobody_asked() -> None:
    assert none(make_suite(), CODE)
    assert none(make_suite([]), CODE)
    assert none(with_accelerator([make_benchmark(2, OFF, pin_memory=True)]), CODE)


def test_settings_that_differ_in_more_are_no_pair() -> None:
    off = make_benchmark(4, OFF, pin_memory=False)
    others = [
        make_benchmark(2, OFF, pin_memory=True),
        make_benchmark(4, OFF, pin_memory=True, prefetch_factor=4),
        make_benchmark(4, OFF, pin_memory=True, part="pin_memory"),
        make_benchmark(4, OFF, pin_memory=True, condition="other"),
    ]
    assert none(with_accelerator([off, *others]), CODE)


def test_what_the_target_has_is_one_side_of_a_pair() -> None:
    as_is = make_benchmark(4, OFF)
    pinned = make_benchmark(4, scaled(1.1), pin_memory=True)
    assert one(with_accelerator([as_is, pinned]), CODE).title.startswith("pin_memory is better")


def test_the_best_known_pair_speaks_and_all_are_evidence() -> None:
    suite = with_accelerator([*pair([100], [150], 8), *pair(OFF, scaled(1.1)), *pair(OFF, OFF, 2)])
    made = one(suite, CODE)
    assert made.title.startswith("pin_memory is better with 4 workers")
    assert [item.name.rsplit(", ", 1)[1] for item in made.evidence] == [
        "4 workers",
        "8 workers",
        "2 workers",
    ]
