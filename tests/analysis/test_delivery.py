from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import make_benchmark, make_epoch, make_facts, make_run, make_suite
from feedrate.analysis.verdicts import best, judge
from feedrate.records import Benchmark, Suite
from feedrate.report.text import suite_text

DUPLICATES = "correctness.iterable_duplicates"
DROPPED = "correctness.drop_last_per_worker"
DIFFER = "correctness.items_differ"
CHOICES = {
    "sweep.plateau_start",
    "sweep.fastest",
    "sweep.balanced",
    "sweep.no_workers_best",
    "sweep.startup",
    "sweep.short_job",
}


def delivering(
    count: int, *items: int, iterable: bool = True, complete: bool = True, batch_size: int = 50
) -> Benchmark:
    epochs = tuple(make_epoch(items=n, complete=complete) for n in items * (2 // len(items)))
    facts = make_facts(count, iterable=iterable, batch_size=batch_size)
    return make_benchmark(count, runs=[make_run(num_workers=count, epochs=epochs, facts=facts)])


def codes(suite: Suite) -> set[str]:
    return {finding.code for finding in judge(suite)}


def test_an_unsharded_stream_is_named_first_and_nothing_is_recommended() -> None:
    suite = make_suite([delivering(0, 500), delivering(2, 1000)])
    made = one(suite, DUPLICATES)
    assert judge(suite)[0] == made
    assert made.severity == "error"
    assert made.title == (
        "With 2 workers an epoch has 1,000 items, with 0 it has 500: every worker reads the whole "
        "stream."
    )
    assert made.remedy.startswith("Shard by torch.utils.data.get_worker_info(), or keep")
    assert evidence(made, "items of an epoch with 2 workers").value == 1000
    assert not codes(suite) & CHOICES
    assert best(suite) is None
    text = suite_text(suite)
    assert "▸" not in text
    assert "enough" not in text
    assert "1,000 items, with 0 it has 500" in " ".join(text.split())


def test_the_same_items_are_compared_as_ever() -> None:
    suite = make_suite([delivering(0, 500), delivering(2, 500)])
    assert not [code for code in codes(suite) if code.startswith("correctness.")]
    assert codes(suite) & CHOICES
    assert "▸" in suite_text(suite)


def test_one_worker_has_one_stream_and_the_largest_ratio_is_told() -> None:
    suite = make_suite([delivering(1, 500), delivering(2, 1000), delivering(4, 2000)])
    assert "With 4 workers an epoch has 2,000 items, with 1 it" in one(suite, DUPLICATES).title
    assert none(make_suite([delivering(0, 500), delivering(1, 500)]), DUPLICATES)


def test_cut_epochs_and_other_batch_sizes_prove_nothing() -> None:
    cut = make_suite([delivering(0, 500), delivering(2, 1000, complete=False)])
    other = make_suite([delivering(0, 500), delivering(2, 1000, batch_size=100)])
    random = make_suite([delivering(0, 500), delivering(2, 990, 1000)])
    for suite in (cut, other, random):
        assert not [code for code in codes(suite) if code.startswith("correctness.")]


@pytest.mark.parametrize(("items", "compared"), [(400, False), (4900, True)])
def test_each_worker_drops_its_last_batch(items: int, compared: bool) -> None:
    suite = make_suite([delivering(0, items + 50), delivering(2, items)])
    made = one(suite, DROPPED)
    assert made.severity == "warning"
    assert "drop_last drops the last batch of 50 of every worker" in made.title
    # a loss within the tolerance does not change which settings are best
    assert bool(codes(suite) & CHOICES) is compared


@pytest.mark.parametrize(("items", "iterable"), [(1000, False), (800, True), (480, True)])
def test_other_differences_are_told_without_a_cause(items: int, iterable: bool) -> None:
    suite = make_suite(
        [delivering(0, 500, iterable=iterable), delivering(2, items, iterable=iterable)]
    )
    assert one(suite, DIFFER).severity == "warning"
    assert not codes(suite) & CHOICES


def test_another_condition_keeps_its_verdicts() -> None:
    def named(benchmark: Benchmark, condition: str) -> Benchmark:
        return make_benchmark(
            benchmark.settings.num_workers, runs=benchmark.runs, condition=condition
        )

    suite = make_suite(
        [
            *(named(delivering(n, 500 * max(1, n)), "stream") for n in (0, 2)),
            *(named(delivering(n, 500), "sharded") for n in (0, 2)),
        ]
    )
    assert {f.condition for f in judge(suite) if f.code in CHOICES} == {"sharded"}
