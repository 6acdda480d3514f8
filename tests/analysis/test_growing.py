"""Each kind of growth, injected into a watch, is found as that kind and no other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from memory_patterns import HARMLESS, Pattern
from watch_builder import GIB, MIB, make_watch, rising

from feedrate.analysis.growing import everything
from feedrate.analysis.grown import Grown
from feedrate.memory_records import (
    Cause,
    DeviceReading,
    GrowthCause,
    MemoryLook,
    MemoryReading,
    MemoryRoom,
    MemoryWatch,
    ProcessReading,
)


def growing(watch: MemoryWatch) -> dict[str, Grown]:
    return {each.code: each for each in everything(watch) if each.is_growing}


def filling(whole: float, count: int) -> Callable[[float], float]:
    """A cache of the dataset in each of ``count`` workers, with shuffling."""

    def held(time: float) -> float:
        epoch, phase = int(time), time % 1
        left = (1 - 1 / count) ** epoch
        return 80 * MIB + whole * (1 - left * (1 - phase / count))

    return held


KINDS: dict[str, dict[str, Any]] = {
    "memory.main_step_growth": {"main": rising(3 * MIB, 300 * MIB)},
    "memory.worker_growth": {"worker": rising(3 * MIB, 100 * MIB)},
    "memory.dataset_cache_growth": {"worker": filling(75 * MIB, 2), "dataset_length": 300},
    "memory.fd_growth_main": {"main_descriptors": rising(20, 40)},
    "memory.fd_growth_worker": {"worker_descriptors": rising(20, 10)},
    "memory.thread_growth_main": {"main_threads": rising(5, 9)},
    "memory.thread_growth_worker": {"worker_threads": rising(5, 2)},
    "memory.shm_growth": {"shm": rising(20 * MIB)},
    "memory.workers_pile_up": {"worker_count": lambda epoch: 2 + 2 * epoch},
    "memory.device_growth": {
        "device": lambda time: DeviceReading(
            allocated=round(GIB + 5 * MIB * time), reserved=round(2 * GIB + 5 * MIB * time)
        )
    },
    "memory.device_cache": {
        "device": lambda time: DeviceReading(
            allocated=GIB, reserved=round(2 * GIB + 5 * MIB * time)
        )
    },
    "memory.pinned_cache": {
        "device": lambda time: DeviceReading(
            allocated=GIB, reserved=GIB, pinned=round(2 * MIB * time)
        )
    },
}


@pytest.mark.parametrize("code", KINDS)
def test_each_kind_alone(code: str) -> None:
    assert set(growing(make_watch(**KINDS[code]))) == {code}


@pytest.mark.parametrize("per_item", [200, 1000, 100_000, 10_000_000])
@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_any_rate_down_to_200_bytes_an_item(per_item: int, workers: int) -> None:
    where = "worker" if workers else "main"
    # Each of the workers has its part of the items.
    rate = per_item * 1000 / max(1, workers)
    made = growing(make_watch(workers=workers, **{where: rising(rate, 100 * MIB)}))
    (found,) = made.values()
    assert found.code == ("memory.worker_growth" if workers else "memory.main_step_growth")
    assert found.per_item == pytest.approx(per_item, rel=0.01)
    assert found.per_epoch == pytest.approx(1000 * per_item, rel=0.01)
    assert found.interval.low <= found.per_item <= found.interval.high


def test_batches_that_the_loop_keeps_are_told_once() -> None:
    watch = make_watch(kept_batches=rising(10 * MIB), shm=rising(10 * MIB))
    found = growing(watch)
    assert set(found) == {"memory.main_step_growth"}
    assert found["memory.main_step_growth"].figure == "shared memory that the main process holds"


def test_a_life_that_bends_at_its_end_grows() -> None:
    """A worker is done before the loop has its last batches; read off one of 2 KiB an item."""
    seen = (0.0, 119.8, 231.4, 317.4, 420.9, 533.5, 623.6, 717.8, 779.3, 780.0)
    watch = make_watch(persistent=False, worker=lambda life: seen[round(9 * life)] * 1000)
    (made,) = (each for each in everything(watch) if each.figure == "memory of a worker")
    assert made.growth.verdict == "grows"
    assert made.code == "memory.worker_growth"


def test_growth_in_workers_that_end_with_the_epoch() -> None:
    watch = make_watch(persistent=False, worker=rising(40 * MIB, 50 * MIB))
    (found,) = growing(watch).values()
    assert found.code == "memory.worker_growth"
    assert found.within_epoch
    assert found.per_epoch == pytest.approx(2 * 40 * MIB)
    assert found.forecast is None


def test_growth_within_one_long_epoch() -> None:
    watch = make_watch(
        epochs=1, phases=48, items=48_000, main=rising(480 * MIB, 300 * MIB), complete_epochs=0
    )
    (found,) = growing(watch).values()
    assert found.per_item == pytest.approx(10.24 * 1024, rel=0.01)
    assert found.per_epoch is None
    assert found.forecast is not None
    assert found.forecast.epochs is None


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("epochs", [9, 14, 30])
def test_a_filled_cache_is_told_also_when_it_is_full(count: int, epochs: int) -> None:
    watch = make_watch(
        epochs=epochs, workers=count, worker=filling(75 * MIB, count), dataset_length=300
    )
    (found,) = growing(watch).values()
    assert found.code == "memory.dataset_cache_growth"
    assert found.growth.verdict == "levels_off"
    assert found.growth.curve is not None
    assert found.growth.curve.final == pytest.approx(455 * MIB, rel=0.02)  # with 300 inherited


def test_a_cache_is_told_by_its_first_epochs_whatever_comes_later() -> None:
    """The ends of epochs of two workers that fill 2 MiB each, as seen on a loaded machine."""
    seen = (296712, 297767, 298326, 298602, 298766, 298848, 298914, 298961, 298985, 299028,
            299035, 299039, 299047, 299096, 299108, 299108, 299108, 299110, 299110)  # fmt: skip
    watch = make_watch(
        epochs=len(seen), phases=1, worker=lambda time: seen[max(0, math.ceil(time) - 1)] * 1000,
        dataset_length=1000,
    )  # fmt: skip
    ends = tuple(look for look in watch.looks if look.phase == 1.0)
    (found,) = growing(msgspec.structs.replace(watch, looks=ends)).values()
    assert found.code == "memory.dataset_cache_growth"


def test_a_rise_like_it_of_a_few_bytes_an_item_is_no_cache() -> None:
    watch = make_watch(epochs=14, worker=filling(2 * MIB, 2), dataset_length=100_000)
    assert growing(watch) == {}


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ({"traced": 90, "holder": "dataset.cache"}, "memory.dataset_cache_growth"),
        ({"traced": 90, "holder": "module.KEPT"}, "memory.worker_growth"),
        ({"traced": 90, "collected": 80}, "memory.cycles"),
        ({"traced": 5}, "memory.native_growth"),
        ({"traced": 5, "trimmed": 95}, "memory.allocator_pages"),
    ],
)
def test_the_second_pass_tells_the_kind(cause: dict[str, Any], code: str) -> None:
    watch = make_watch(
        worker=rising(3 * MIB, 100 * MIB),
        causes=(GrowthCause(process="worker", grown=100, **cause),),
    )
    (found,) = growing(watch).values()
    assert found.code == code
    assert found.cause is not None


def test_where_growth_has_ended_a_second_pass_that_saw_nothing_tells_no_kind() -> None:
    nothing = GrowthCause(process="worker", grown=300_000)
    whole, count = 75 * MIB, 2
    watch = make_watch(
        epochs=30, worker=filling(whole, count), dataset_length=300, causes=(nothing,)
    )
    (found,) = growing(watch).values()
    assert found.code == "memory.dataset_cache_growth"
    slower = make_watch(
        epochs=14, worker=lambda time: 100 * MIB * (1 - 0.7**time), causes=(nothing,)
    )
    assert set(growing(slower)) == {"memory.warm_up"}


FILES = Cause(
    process="worker 0", file="data.py", line=7, type_name="_io.BufferedReader", count=210.0,
    bytes_per_epoch=210 * 9000.0, held_by=("data.OPEN", "list"),
)  # fmt: skip


def test_batches_of_others_on_the_machine_are_no_files_that_pile_up() -> None:
    def named(taken: Callable[[float], float]) -> MemoryWatch:
        watch = make_watch(shm=rising(20 * MIB))
        looks = [
            msgspec.structs.replace(look, shm_named=round(taken(look.items / 1000)))
            for look in watch.looks
        ]
        return msgspec.structs.replace(watch, looks=tuple(looks))

    assert growing(named(lambda _: 5 * MIB)) == {}
    (found,) = growing(named(rising(3 * MIB))).values()
    assert found.code == "memory.shm_growth"
    assert found.per_epoch == pytest.approx(3 * MIB)


def mapping(watch: MemoryWatch, mapped: Callable[[float], float]) -> MemoryWatch:
    """Let each worker map so much of shared memory."""

    def reading(look: MemoryLook, worker: ProcessReading) -> ProcessReading:
        return msgspec.structs.replace(worker, shmem=round(mapped(look.items / 1000)))

    looks = [
        msgspec.structs.replace(look, workers=tuple(reading(look, each) for each in look.workers))
        for look in watch.looks
    ]
    return msgspec.structs.replace(watch, looks=tuple(looks))


@pytest.mark.parametrize(
    ("mapped", "which"),
    [
        (lambda _: 5 * MIB, " that no process of this run has mapped"),
        (rising(10 * MIB), " that workers have mapped"),
        (rising(8 * MIB), " that workers have mapped"),
        # batches on their way, by as much as the files have grown: they may hide whose those are
        (lambda time: 150 * MIB * (round(9 * time) % 2), ""),
    ],
)
def test_who_has_the_files_mapped_that_pile_up(
    mapped: Callable[[float], float], which: str
) -> None:
    (found,) = growing(mapping(make_watch(shm=rising(20 * MIB)), mapped)).values()
    assert (found.code, found.which) == ("memory.shm_growth", which)


def test_where_the_platform_does_not_tell_nobody_is_said_to_map_them_or_not() -> None:
    watch = make_watch(shm=rising(20 * MIB))
    looks = [
        msgspec.structs.replace(
            look, main=msgspec.structs.replace(look.main, memory=MemoryReading(rss=300 * MIB))
        )
        for look in watch.looks
    ]
    (found,) = growing(msgspec.structs.replace(watch, looks=tuple(looks))).values()
    assert (found.code, found.which) == ("memory.shm_growth", "")


def test_the_line_that_opens_files_is_told_with_them_and_once() -> None:
    opened = GrowthCause(process="worker", grown=10, traced=9, file="data.py", line=7)
    watch = make_watch(
        worker_descriptors=rising(200, 10), worker=rising(MIB, 100 * MIB), causes=(opened,),
        objects=(FILES,),
    )  # fmt: skip
    (found,) = growing(watch).values()
    assert found.code == "memory.fd_growth_worker"
    assert found.cause is not None
    assert (found.cause.file, found.cause.line, found.cause.count) == ("data.py", 7, 210)


def test_objects_of_another_number_are_not_the_files() -> None:
    other = msgspec.structs.replace(FILES, count=50.0)
    watch = make_watch(worker_descriptors=rising(200, 10), objects=(other,))
    (found,) = growing(watch).values()
    assert found.cause is None


def test_the_forecast_against_each_limit() -> None:
    room = MemoryRoom(
        memory=1200 * MIB, shm=100 * MIB, main_descriptors=1024, worker_descriptors=256
    )
    watch = make_watch(
        worker=rising(3 * MIB, 100 * MIB), shm=rising(20 * MIB), worker_descriptors=rising(10, 16),
        room=room,
    )  # fmt: skip
    found = growing(watch)
    forecasts = {code: each.forecast for code, each in found.items()}
    assert {code: when.limit for code, when in forecasts.items() if when} == {
        "memory.worker_growth": "memory",
        "memory.shm_growth": "/dev/shm",
        "memory.fd_growth_worker": "descriptors",
    }
    epochs = {when.limit: when.epochs for when in forecasts.values() if when}
    assert epochs["memory"] == pytest.approx(1200 / (2 * 3))
    assert epochs["/dev/shm"] == pytest.approx(5)
    # Each worker has its own limit: 256, of which 16 + 10 x 11 were open when the last epoch began.
    assert epochs["descriptors"] == pytest.approx((256 - 126) / 10)
    seconds = {when.limit: when.seconds for when in forecasts.values() if when}
    assert seconds["/dev/shm"] == pytest.approx(5 * 60)


def test_what_open_files_take_is_told_once() -> None:
    watch = make_watch(worker_descriptors=rising(200, 10), worker=rising(MIB, 100 * MIB))
    assert set(growing(watch)) == {"memory.fd_growth_worker"}
    watch = make_watch(worker_descriptors=rising(20, 10), worker=rising(MIB, 100 * MIB))
    assert set(growing(watch)) == {"memory.fd_growth_worker", "memory.worker_growth"}


def test_what_threads_take_is_told_once() -> None:
    # an idle thread takes 50 KiB or so, in C: its stack, its arena
    native = (GrowthCause(process="main", grown=MIB, traced=MIB // 50),)
    starting = {"main_threads": rising(20, 9), "main": rising(MIB, 300 * MIB)}
    assert set(growing(make_watch(**starting))) == {"memory.thread_growth_main"}
    watch = make_watch(**starting, causes=native)
    assert set(growing(watch)) == {"memory.thread_growth_main"}
    few = starting | {"main_threads": rising(2, 9)}
    both = {"memory.thread_growth_main", "memory.native_growth"}
    assert set(growing(make_watch(**few, causes=native))) == both
    other = Cause(process="main", file="train.py", line=7, bytes_per_epoch=0.7 * MIB)
    seen = (GrowthCause(process="main", grown=MIB, traced=MIB, file="train.py", line=7),)
    both = {"memory.thread_growth_main", "memory.main_step_growth"}
    assert set(growing(make_watch(**starting, causes=seen, objects=(other,)))) == both


def test_threads_of_iterators_that_are_kept_are_told_by_their_workers() -> None:
    watch = make_watch(worker_count=lambda epoch: 2 + 2 * epoch, main_threads=rising(2, 9))
    assert set(growing(watch)) == {"memory.workers_pile_up"}


def test_threads_that_come_and_go_are_none_that_grow() -> None:
    assert not growing(make_watch(main_threads=lambda time: 9 + 40 * (time % 1)))
    assert not growing(make_watch(worker_threads=lambda time: min(34.0, 2 + 4 * time), epochs=40))


def test_what_other_objects_explain_is_no_matter_of_open_files() -> None:
    """Graphs that are kept hold batches, which hold descriptors."""
    graph = Cause(process="main", file="train.py", line=7, bytes_per_epoch=0.7 * MIB)
    few = Cause(process="main", file="train.py", line=7, bytes_per_epoch=0.1 * MIB)
    in_worker = msgspec.structs.replace(graph, process="worker 0")
    opening = {"main_descriptors": rising(200, 10), "main": rising(MIB, 100 * MIB)}
    both = {"memory.fd_growth_main", "memory.main_step_growth"}
    assert set(growing(make_watch(**opening, objects=(graph,)))) == both
    assert set(growing(make_watch(**opening, objects=(few,)))) == {"memory.fd_growth_main"}
    assert set(growing(make_watch(**opening, objects=(in_worker,)))) == {"memory.fd_growth_main"}
    files = msgspec.structs.replace(graph, count=200.0)
    assert set(growing(make_watch(**opening, objects=(files,)))) == {"memory.fd_growth_main"}


def test_swapped_memory_counts() -> None:
    watch = make_watch(main=300 * MIB)
    looks = tuple(
        msgspec.structs.replace(
            look, main=msgspec.structs.replace(look.main, swapped=3 * MIB * look.epoch)
        )
        for look in watch.looks
    )
    assert set(growing(msgspec.structs.replace(watch, looks=looks))) == {"memory.main_step_growth"}


def over_time(pattern: Pattern, seed: int, epochs: int, phases: int) -> Callable[[float], float]:
    """The pattern with a value for each look, so that it moves within epochs too."""
    values = pattern(np.random.default_rng(seed), epochs * phases + 1)
    return lambda time: max(0.0, float(values[min(round(time * phases), len(values) - 1)]))


@pytest.mark.parametrize("pattern", HARMLESS.values(), ids=HARMLESS.keys())
@pytest.mark.parametrize("persistent", [True, False])
def test_no_false_alarm(pattern: Pattern, persistent: bool) -> None:
    for seed in range(20):
        moves = over_time(pattern, seed, 12, 8)
        watch = make_watch(main=moves, worker=moves, persistent=persistent, dataset_length=1000)
        assert set(growing(watch)) <= {"memory.warm_up"}, seed


def test_workers_of_an_epoch_that_has_not_ended_are_judged_by_what_there_is() -> None:
    """A worker that leaves its files open dies in its first epoch."""
    watch = make_watch(
        epochs=1,
        phases=40,
        persistent=False,
        complete_epochs=0,
        worker_descriptors=lambda time: 20 + 200 * time,
    )
    grown = {each.code: each for each in everything(watch) if each.is_growing}
    assert "memory.fd_growth_worker" in grown
    assert not grown["memory.fd_growth_worker"].within_epoch


def test_a_cache_that_filled_long_ago_is_seen_in_the_first_epochs() -> None:
    """Two workers, each of which lacks half as much with each epoch; later looks are rare."""
    watch = make_watch(
        epochs=65,
        phases=2,
        items=300,
        worker=lambda time: 80 * MIB + 70 * MIB * (1 - 0.5 ** math.floor(time + 0.999)),
        dataset_length=300,
    )
    seldom = tuple(each for each in watch.looks if each.epoch < 18 or each.epoch % 4 == 0)
    grown = everything(msgspec.structs.replace(watch, looks=seldom))
    assert "memory.dataset_cache_growth" in {each.code for each in grown if each.is_growing}
