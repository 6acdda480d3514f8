from __future__ import annotations

import pytest

from builders import make_benchmark, make_failed_run, make_suite
from feedrate.experiments import published
from feedrate.settings import LoaderSettings


def test_the_sweep_has_every_count_in_every_condition() -> None:
    benchmarks = published.sweep_benchmarks()
    assert [(b.condition, b.settings.num_workers) for b in benchmarks] == [
        (condition, workers)
        for condition in ("light", "augmented")
        for workers in (0, 1, 2, 4, 8, 12, 16)
    ]
    assert {b.part for b in benchmarks} == {"sweep"}
    assert len({b.label for b in benchmarks}) == len(benchmarks)


def test_settings_are_the_published_ones() -> None:
    none, one, two = published.sweep_benchmarks(["light"], [0, 1, 2])
    assert two.settings == LoaderSettings(
        num_workers=2, prefetch_factor=2, persistent_workers=True, pin_memory=True
    )
    assert (two.label, one.label) == ("light, 2 workers", "light, 1 worker")
    assert two.left_out == ()
    assert none.settings == LoaderSettings(num_workers=0, pin_memory=True)
    assert [text.partition(":")[0] for text in none.left_out] == [
        "prefetch_factor",
        "persistent_workers",
    ]


def test_pin_memory_alone_differs() -> None:
    off, on = published.pin_benchmarks()
    assert (off.settings.pin_memory, on.settings.pin_memory) == (False, True)
    assert off.settings.num_workers == on.settings.num_workers == 4
    assert off.condition == on.condition == "augmented"
    assert off.part == on.part == "pin_memory"
    assert (off.label, on.label) == (
        "augmented, 4 workers, pin_memory off",
        "augmented, 4 workers, pin_memory on",
    )


def test_repeats_are_a_part_of_their_own() -> None:
    benchmarks = published.repeated_benchmarks("light", (8, 12))
    assert [(b.part, b.condition, b.settings.num_workers) for b in benchmarks] == [
        ("repeated", "light", 8),
        ("repeated", "light", 12),
    ]


@pytest.mark.parametrize(
    ("rates", "top"),
    [
        ({0: 30, 2: 60, 4: 109, 8: 117, 12: 119, 16: 118}, (8, 12, 16)),
        ({0: 30, 2: 60, 4: 109, 8: 117, 12: 118, 16: 119}, (8, 12, 16)),
        ({0: 30, 2: 60, 4: 109, 8: 108, 12: 107, 16: 106}, (2, 4, 8)),
        ({0: 30, 2: 29, 4: 28, 8: 27}, (0, 2, 4)),
        ({0: 30, 2: 29}, (0, 2)),
    ],
    ids=["inside", "at the end", "in the middle", "at the start", "few"],
)
def test_the_top_is_the_fastest_and_its_neighbours(
    rates: dict[int, int], top: tuple[int, ...]
) -> None:
    suite = make_suite(
        make_benchmark(count, [1000 * rate], condition="augmented") for count, rate in rates.items()
    )
    assert published.top_workers(suite, "augmented") == top


def test_the_top_reads_its_own_condition_and_the_sweep_only() -> None:
    light = {1: 300, 2: 200, 4: 100, 8: 50}
    augmented = {1: 10, 2: 20, 4: 30, 8: 40}
    suite = make_suite(
        [
            *(make_benchmark(n, [rate], condition="light") for n, rate in light.items()),
            *(make_benchmark(n, [rate], condition="augmented") for n, rate in augmented.items()),
            make_benchmark(1, [9_999], condition="augmented", part="repeated"),
        ]
    )
    assert published.top_workers(suite, "light") == (1, 2, 4)
    assert published.top_workers(suite, "augmented") == (2, 4, 8)


def test_counts_without_figures_are_no_neighbours() -> None:
    suite = make_suite(
        [
            make_benchmark(1, [10]),
            make_benchmark(2, [20]),
            make_benchmark(4, runs=[make_failed_run()]),
            make_benchmark(8, [40]),
            make_benchmark(16, skipped="not enough memory"),
        ]
    )
    assert published.top_workers(suite, "") == (1, 2, 8)
    assert published.top_workers(suite, "light") == ()


def test_the_protocol_is_the_published_one() -> None:
    assert published.FULL.workers == (0, 1, 2, 4, 8, 12, 16)
    assert (published.FULL.epochs, published.FULL.repeats) == (2, 5)
    assert published.FULL.images is None
    assert set(published.QUICK.workers) < set(published.FULL.workers)
    assert published.QUICK.pin_workers in published.QUICK.workers
