from __future__ import annotations

import itertools

import msgspec
import pytest
from watch_builder import MIB, make_watch, rising

from feedrate.analysis import figures
from feedrate.analysis.figures import of_main, of_workers
from feedrate.analysis.phases import (
    STRETCHES,
    epoch_items,
    epoch_seconds,
    life_series,
    series,
    workers_stay,
)
from feedrate.memory_records import MemoryWatch

PRIVATE_OF_MAIN = of_main(figures.private)


def test_one_value_an_epoch_is_its_lowest() -> None:
    """What is in flight comes and goes; the lowest look of each epoch has none of it."""
    watch = make_watch(epochs=10, main=lambda time: 100 * MIB + (time % 1 > 0.3) * 50 * MIB)
    made = series(watch, PRIVATE_OF_MAIN)
    assert made is not None
    assert (made.per, made.items) == ("epoch", 1000)
    assert made.values == (100.0 * MIB,) * 10


def test_only_phases_that_every_epoch_has_are_compared() -> None:
    watch = make_watch(epochs=10, main=lambda time: (200 - 100 * (time % 1 == 0.5)) * MIB)
    missing = tuple(
        look for look in watch.looks if not (look.epoch % 2 and abs(look.phase - 0.5) < 0.01)
    )
    made = series(msgspec.structs.replace(watch, looks=missing), PRIVATE_OF_MAIN)
    assert made is not None
    assert set(made.values) == {200.0 * MIB}


def test_few_long_epochs_are_cut_into_stretches() -> None:
    watch = make_watch(epochs=2, phases=40, items=10_000, main=rising(100 * MIB))
    made = series(watch, PRIVATE_OF_MAIN)
    assert made is not None
    assert (made.per, len(made.values)) == ("stretch", STRETCHES)
    assert made.items == pytest.approx(20_000 / STRETCHES)
    steps = [b - a for a, b in zip(made.values, made.values[1:], strict=False)]
    assert sum(steps) / len(steps) == pytest.approx(200 * MIB / STRETCHES, rel=0.1)


def test_an_epoch_that_never_ends_has_stretches() -> None:
    watch = make_watch(epochs=1, phases=48, complete_epochs=0)
    made = series(watch, PRIVATE_OF_MAIN)
    assert made is not None
    assert made.per == "stretch"
    assert epoch_items(watch) is None
    assert epoch_seconds(watch) is None


def test_an_epoch_that_was_cut_short_does_not_count() -> None:
    watch = make_watch(epochs=11, main=lambda time: (1 if time < 10 else 9) * MIB)
    cut = msgspec.structs.replace(watch, complete_epochs=10)
    made = series(cut, PRIVATE_OF_MAIN)
    assert made is not None
    assert len(made.values) == 10


def test_lives_of_one_epoch_are_laid_over_one_another() -> None:
    watch = make_watch(epochs=3, persistent=False, worker=rising(90 * MIB, 50 * MIB))
    made = life_series(watch, of_workers(figures.private))
    assert made is not None
    assert made.per == "life"
    assert made.items == pytest.approx(1000 / 9)
    assert made.values == tuple(10.0 * MIB * k for k in range(9))
    assert not workers_stay(watch)


def test_many_lives_are_told_apart_in_finer_parts() -> None:
    """So that watching longer tells more, where a part of a life hides what it gains."""
    watch = make_watch(epochs=3, phases=72, persistent=False, worker=rising(72 * MIB))
    made = life_series(watch, of_workers(figures.private))
    assert made is not None
    assert (len(made.values), made.cut) == (36, 4)
    steps = [b - a for a, b in itertools.pairwise(made.values)]
    assert sum(steps) / len(steps) / made.items == pytest.approx(72 * MIB / 1000, rel=0.05)


def test_what_batches_in_flight_hold_is_not_missed_at_the_end_of_a_life() -> None:
    """At an epoch's end none is in flight: a worker has its descriptors no more then."""
    watch = make_watch(
        epochs=3, persistent=False, worker=lambda time: (9 * time - 4 * (time == 1.0)) * MIB
    )
    made = life_series(watch, of_workers(figures.private))
    assert made is not None
    assert made.values == pytest.approx([MIB * k for k in range(9)])


def test_workers_that_still_start_at_the_first_batch_blur_nothing() -> None:
    watch = make_watch(epochs=8, persistent=False, worker=rising(90 * MIB, 50 * MIB))
    starting = tuple(
        msgspec.structs.replace(
            look,
            workers=tuple(
                msgspec.structs.replace(
                    each, memory=msgspec.structs.replace(each.memory, anonymous=20 * MIB)
                )
                for each in look.workers
            ),
        )
        if look.phase == 0 and look.epoch % 3 == 0
        else look
        for look in watch.looks
    )
    figure = of_workers(figures.private)
    made = life_series(msgspec.structs.replace(watch, looks=starting), figure)
    assert made == life_series(watch, figure)


def test_where_no_end_was_seen_a_life_is_held_against_its_begin() -> None:
    """The workers of an epoch whose length is not known are gone at its end."""
    watch = make_watch(epochs=8, persistent=False, worker=rising(90 * MIB, 50 * MIB))
    gone = tuple(
        msgspec.structs.replace(look, workers=()) if look.phase == 1.0 else look
        for look in watch.looks
    )
    made = life_series(msgspec.structs.replace(watch, looks=gone), of_workers(figures.private))
    assert made is not None
    assert made.values == tuple(10.0 * MIB * k for k in range(9))


def test_looks_may_go_round_the_phases() -> None:
    """Where looks are dear an epoch has its first and last, and another one each time."""
    watch = make_watch(epochs=8, persistent=False, worker=rising(90 * MIB, 50 * MIB))
    seldom = tuple(
        look for look in watch.looks if round(look.phase * 9) in (0, look.epoch % 8 + 1, 9)
    )
    made = life_series(msgspec.structs.replace(watch, looks=seldom), of_workers(figures.private))
    assert made is not None
    assert made.values == tuple(10.0 * MIB * k for k in range(9))


def test_workers_that_stay_are_known_by_their_numbers() -> None:
    assert workers_stay(make_watch(persistent=True))
    assert not workers_stay(make_watch(persistent=False))
    assert workers_stay(make_watch(epochs=1, persistent=True))


def test_a_figure_of_workers_is_their_mean() -> None:
    """One that ends takes nothing off it."""
    watch = make_watch(epochs=10, worker_count=lambda epoch: 4 if epoch < 5 else 3)
    made = series(watch, of_workers(figures.private))
    assert made is not None
    assert len(set(made.values)) == 1


def test_what_no_look_tells_has_no_series() -> None:
    watch = make_watch(workers=0)
    assert series(watch, of_workers(figures.private)) is None
    assert series(watch, figures.device_allocated) is None
    assert life_series(watch, of_workers(figures.private)) is None
    assert series(MemoryWatch(looks=(), complete_epochs=0, num_workers=0), PRIVATE_OF_MAIN) is None


def test_the_pace_and_size_of_an_epoch() -> None:
    watch = make_watch(epochs=4, items=500, epoch_seconds=30, main=0)
    assert (epoch_items(watch), epoch_seconds(watch)) == (500, 30)


def test_epochs_of_which_each_tenth_was_looked_at_count_the_items_between() -> None:
    """The first ones are looked at more closely; they are left out where they do not fit."""
    watch = make_watch(epochs=101, phases=2, main=rising(MIB, 300 * MIB))
    seldom = tuple(look for look in watch.looks if look.epoch % 10 == 0 or look.epoch == 1)
    made = series(msgspec.structs.replace(watch, looks=seldom), PRIVATE_OF_MAIN)
    assert made is not None
    assert made.items == 10_000
    assert made.values == tuple((300.0 + 10 * n) * MIB for n in range(11))


def test_looks_that_become_rarer_leave_equal_steps() -> None:
    watch = make_watch(epochs=28, phases=2, main=rising(MIB, 300 * MIB))
    kept = {0, 4, 8, 16, 24, 27}
    seldom = tuple(look for look in watch.looks if look.epoch in kept)
    made = series(msgspec.structs.replace(watch, looks=seldom), PRIVATE_OF_MAIN)
    assert made is not None
    assert made.items == 8000
    assert len(made.values) == 4
    assert epoch_seconds(msgspec.structs.replace(watch, looks=seldom)) == 60.0
