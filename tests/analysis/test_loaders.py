"""torch's loader against feedrate's, and that nothing else ever mixes the two."""

from __future__ import annotations

import msgspec
import pytest
from found import evidence, none, one

from builders import make_benchmark, make_failed_run, make_suite
from feedrate.analysis.conditions import by_loader, conditions
from feedrate.analysis.loaders import pairs_of
from feedrate.analysis.summary import summarize
from feedrate.analysis.verdicts import best, judge
from feedrate.records import Finding, Suite
from two_loaders import ALONE, OURS, TORCHS, Rates, alone, run_of, side, two_loaders

CODE = "sweep.loaders"
BASE = (100.0, 101.0, 99.0, 100.5, 99.5)


def repeated(factor: float, *shape: float) -> Suite:
    """Five runs of each at 2 workers; ``shape`` disturbs single runs of ours."""
    ours = [factor * rate * more for rate, more in zip(BASE, shape or (1.0,) * 5, strict=True)]
    return make_suite([*side({2: BASE}, "torch"), *side({2: ours}, "feedrate")])


def of_loader(suite: Suite, loader: str) -> list[Finding]:
    return [finding for finding in judge(suite) if finding.loader == loader]


@pytest.mark.parametrize(
    ("factor", "title", "remedy"),
    [
        (1.25, "Feedrate's loader is faster with 2 workers: 1.25× torch's rate (95 %", "Use feed"),
        (0.80, "Feedrate's loader is slower with 2 workers: 0.80× torch's rate (95 %", "Keep"),
        (1.01, "Feedrate's loader makes no difference with 2 workers: 1.01× torch's", "Keep"),
    ],
)
def test_clear_verdicts(factor: float, title: str, remedy: str) -> None:
    made = one(repeated(factor), CODE)
    assert made.title.startswith(title)
    assert made.remedy.startswith(remedy)
    assert made.condition == "light"
    assert made.loader == ""


@pytest.mark.parametrize(
    ("shape", "title"),
    [
        ((1.02, 1.05, 1.03, 1.015, 1.04), "Feedrate's loader is faster with 2 workers, by an und"),
        ((0.90, 1.10, 1.00, 0.95, 1.07), "Whether feedrate's loader makes a difference with 2"),
    ],
)
def test_undecided_verdicts(shape: tuple[float, ...], title: str) -> None:
    made = one(repeated(1.0, *shape), CODE)
    assert made.title.startswith(title)
    assert "Repeat each setting 10 times (--repeats 10)" in made.remedy


def test_pairs_are_neighbours_in_time_and_have_a_range() -> None:
    made = one(repeated(1.2, 1.0, 1.1, 0.9, 1.0, 1.0), CODE)
    assert "; pair by pair 1.08× to 1.32×)" in made.title
    assert evidence(made, "lowest ratio of a pair, 2 workers").value == pytest.approx(1.08)
    assert evidence(made, "highest ratio of a pair, 2 workers").value == pytest.approx(1.32)
    ratio = evidence(made, "rate with feedrate's loader over torch's, 2 workers")
    assert ratio.low is not None
    assert ratio.low <= ratio.value == pytest.approx(1.2)


def test_single_runs_may_be_chance_and_all_counts_are_named() -> None:
    made = one(two_loaders(), CODE)
    assert made.title == (
        "From one run each, feedrate's loader has 1.62× torch's rate with 4 workers, which may be "
        "chance; 1.33× to 1.62× with 1, 2 and 4 workers; the highest rates are 300 items/s with "
        "feedrate's loader (4 workers) and 185 items/s with torch's (4 workers)."
    )
    assert [item.name for item in made.evidence][:3] == [
        f"rate with feedrate's loader over torch's, {count}"
        for count in ("4 workers", "1 worker", "2 workers")
    ]
    assert made.remedy == "Run the protocol again: its repeats are fixed."
    other = one(two_loaders(target="train.py:make_loader"), CODE)
    assert other.remedy == "Repeat each setting 5 times (--repeats 5)."


def test_the_count_that_is_known_best_speaks() -> None:
    suite = make_suite(
        [
            *side(TORCHS, "torch"),
            *side(OURS, "feedrate"),
            *side({2: BASE}, "torch", part="repeated"),
            *side({2: [1.5 * rate for rate in BASE]}, "feedrate", part="repeated"),
        ]
    )
    made = one(suite, CODE)
    assert made.title.startswith("Feedrate's loader is faster with 2 workers: 1.50×")
    # the sweep's own pair at 2 workers has less behind it
    assert [pair.workers for pair in pairs_of(summarize(suite))] == [1, 2, 4]


@pytest.mark.parametrize(
    "others",
    [
        side({4: BASE}, "feedrate"),
        side({2: BASE}, "feedrate", condition="augmented"),
        side({2: BASE}, "feedrate", part="repeated"),
        [make_benchmark(2, BASE, condition="light", loader="feedrate", prefetch_factor=4)],
        [make_benchmark(2, runs=[make_failed_run()], condition="light", loader="feedrate")],
        [make_benchmark(2, BASE, condition="light")],
    ],
    ids=["count", "condition", "part", "setting", "failed", "no loader asked for"],
)
def test_what_differs_in_more_is_not_compared(others: list[object]) -> None:
    assert none(make_suite([*side({2: BASE}, "torch"), *others]), CODE)  # type: ignore[list-item]


def test_other_work_is_an_error_and_no_comparison() -> None:
    run = run_of(100.0, 2, "feedrate", 0)
    fewer = tuple(msgspec.structs.replace(epoch, items=640) for epoch in run.epochs)
    short = make_benchmark(
        2,
        runs=[msgspec.structs.replace(run, epochs=fewer)],
        condition="light",
        loader="feedrate",
    )
    suite = make_suite([*side({2: (100.0,)}, "torch"), short])
    assert none(suite, CODE)
    made = one(suite, "correctness.items_differ")
    assert made.severity == "error"
    assert made.title.startswith(
        "With feedrate's loader an epoch has 640 items and with torch's 1,280, both with 2 workers"
    )


def test_each_loader_is_judged_as_if_it_were_alone() -> None:
    """The findings of each are those of a suite that never held the other."""
    both = two_loaders()
    for loader, rates in (("torch", TORCHS), ("feedrate", OURS)):
        only = make_suite([alone(), *side(rates, loader)], metadata=both.metadata)
        assert of_loader(only, loader)
        assert of_loader(both, loader) == of_loader(only, loader)


def test_figures_of_each_are_its_own() -> None:
    torchs, ours = by_loader(*conditions(two_loaders()))
    for part, rates in ((torchs, TORCHS), (ours, OURS)):
        assert [p.rate for p in part.curve] == pytest.approx(
            [*ALONE, *(r[0] for r in rates.values())]
        )
        assert {p.benchmark.settings.loader for p in part.points} == {None, part.loader}
    fastest = [f for f in judge(two_loaders()) if f.code == "sweep.fastest"]
    assert [(f.loader, f.evidence[0].value, f.evidence[1].value) for f in fastest] == [
        ("torch", 4, pytest.approx(185.0)),
        ("feedrate", 4, pytest.approx(300.0)),
    ]


def test_more_runs_of_one_never_stand_for_the_other() -> None:
    """Of two points with one count the better known is taken, but only of the same loader."""
    again: Rates = {2: [180.0 * rate / 100 for rate in BASE]}
    suite = make_suite(
        [
            alone(),
            *side(TORCHS, "torch"),
            *side(OURS, "feedrate"),
            *side(again, "torch", part="repeated"),
        ]
    )
    torchs, ours = by_loader(*conditions(suite))
    assert [len(point.repeats) for point in torchs.curve] == [1, 1, 5, 1]
    assert [len(point.repeats) for point in ours.curve] == [1, 1, 1, 1]


def test_failures_are_told_once_for_all() -> None:
    failed = make_benchmark(
        8, runs=[make_failed_run()], condition="light", loader="torch", label="light, 8 workers"
    )
    suite = make_suite([alone(), *side(TORCHS, "torch"), *side(OURS, "feedrate"), failed])
    made = one(suite, "sweep.failed")
    assert made.loader == ""
    assert made.title.startswith("1 of 8 settings failed")


def test_conditions_without_a_choice_of_loader_are_as_they_were() -> None:
    suite = make_suite()
    (condition,) = conditions(suite)
    assert by_loader(condition) == (condition,)
    assert {finding.loader for finding in judge(suite)} == {""}
    assert none(suite, CODE)


def test_one_loader_alone_is_named() -> None:
    suite = make_suite([alone(), *side(OURS, "feedrate")])
    assert {f.loader for f in judge(suite) if f.code.startswith("sweep.")} == {"feedrate"}


def test_the_best_settings_say_whose_loader() -> None:
    found = best(two_loaders())
    assert found is not None
    assert (found.settings.loader, found.settings.num_workers) == ("feedrate", 4)
