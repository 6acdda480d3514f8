from __future__ import annotations

import msgspec
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


BOTH = ("torch", "feedrate")


def test_loaders_take_turns_at_each_worker_count() -> None:
    benchmarks = published.sweep_benchmarks(["light"], [0, 1, 2], BOTH)
    assert [(b.settings.num_workers, b.settings.loader) for b in benchmarks] == [
        (0, None),
        (1, "torch"),
        (1, "feedrate"),
        (2, "torch"),
        (2, "feedrate"),
    ]
    assert len({b.label for b in benchmarks}) == len(benchmarks)
    assert benchmarks[-1].label == "light, 2 workers, loader feedrate"
    assert benchmarks[0].left_out[-1].startswith("loader: ")


def test_a_pair_differs_in_the_loader_alone() -> None:
    for made in (
        published.sweep_benchmarks(["light"], [4], BOTH),
        published.repeated_benchmarks("light", [4], BOTH),
        published.pin_benchmarks(loaders=BOTH)[:2],
    ):
        torchs, ours = made
        assert (torchs.part, torchs.condition) == (ours.part, ours.condition)
        assert msgspec.structs.replace(torchs.settings, loader="feedrate") == ours.settings


def test_pinning_is_looked_at_for_each_loader() -> None:
    made = published.pin_benchmarks(loaders=BOTH)
    assert [(b.settings.pin_memory, b.settings.loader) for b in made] == [
        (False, "torch"),
        (False, "feedrate"),
        (True, "torch"),
        (True, "feedrate"),
    ]


def test_one_loader_that_is_named_is_set() -> None:
    none, two = published.sweep_benchmarks(["light"], [0, 2], ["feedrate"])
    assert (none.settings.loader, two.settings.loader) == (None, "feedrate")
    assert two.label == "light, 2 workers"


def test_the_top_is_found_for_each_loader_and_measured_for_all() -> None:
    rates = {
        "torch": {1: 10, 2: 40, 4: 30, 8: 20, 16: 5},
        "feedrate": {1: 1000, 2: 2000, 4: 3000, 8: 4000, 16: 3500},
    }
    suite = make_suite(
        make_benchmark(count, [rate], condition="light", loader=loader)
        for loader, values in rates.items()
        for count, rate in values.items()
    )
    assert published.top_workers(suite, "light", ["torch"]) == (1, 2, 4)
    assert published.top_workers(suite, "light", ["feedrate"]) == (4, 8, 16)
    assert published.top_workers(suite, "light", BOTH) == (1, 2, 4, 8, 16)
    assert published.top_workers(suite, "light") == ()


def test_no_workers_may_be_the_top_of_every_loader() -> None:
    alone = make_benchmark(0, [100.0], condition="light")
    slow = [
        make_benchmark(count, [10.0 / count], condition="light", loader=loader)
        for loader in BOTH
        for count in (1, 2, 4)
    ]
    assert published.top_workers(make_suite([alone, *slow]), "light", BOTH) == (0, 1, 2)
