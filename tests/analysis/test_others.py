"""Processes beside the watched loader's workers: what is judged of them, and what cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest
from watch_builder import MIB, make_watch, rising

from feedrate.analysis.growing import everything
from feedrate.analysis.grown import Grown
from feedrate.analysis.leaks import epochs_wanted, is_leak, judge
from feedrate.analysis.others import staying
from feedrate.analysis.suspects import suspects
from feedrate.memory_records import Cause, MemoryLook, MemoryReading, MemoryWatch, ProcessReading

EPOCHS = 12
IDS = (901, 902)


def other(
    pid: int, held: float, *, program: str | None = None, descriptors: float = 20
) -> ProcessReading:
    return ProcessReading(
        pid=pid,
        memory=MemoryReading(rss=round(held), anonymous=round(held)),
        descriptors=round(descriptors),
        program=program,
    )


def beside(others: Callable[[float], tuple[ProcessReading, ...]]) -> MemoryWatch:
    """Return a watch with other processes at each time in epochs."""
    watch = make_watch(epochs=EPOCHS)

    def look(each: MemoryLook) -> MemoryLook:
        return msgspec.structs.replace(each, others=others(each.epoch + each.phase))

    return msgspec.structs.replace(watch, looks=tuple(map(look, watch.looks)))


def growing(watch: MemoryWatch) -> list[Grown]:
    return [each for each in everything(watch) if each.is_growing]


@pytest.mark.parametrize("since", [0.0, 1.0, 1.5, 3.0])
def test_workers_of_another_loader_that_stay_and_grow(since: float) -> None:
    """As those of a validation, the first of which comes when an epoch has ended."""

    def others(time: float) -> tuple[ProcessReading, ...]:
        held = rising(3 * MIB, 100 * MIB)(time)
        return tuple(other(pid, held) for pid in IDS) if time >= since else ()

    watch = beside(others)
    (made,) = growing(watch)
    assert made.code == "memory.worker_growth"
    assert made.per_epoch == pytest.approx(2 * 3 * MIB)
    (finding,) = (each for each in judge(watch) if is_leak(each))
    assert finding.title.startswith(
        "Memory of 2 workers of another loader grows by 3.00 MiB an epoch each (6.14 KiB an item)"
    )
    assert suspects(watch) == (), "a second pass looks into the watched loader's own workers"


def test_both_loaders_workers_are_told_apart() -> None:
    watch = make_watch(epochs=EPOCHS, worker=rising(MIB, 100 * MIB))
    grows = beside(lambda time: (other(901, rising(3 * MIB)(time)),))
    looks = [
        msgspec.structs.replace(look, others=beside.others)
        for look, beside in zip(watch.looks, grows.looks, strict=True)
    ]
    watch = msgspec.structs.replace(watch, looks=tuple(looks))
    titles = [each.title for each in judge(watch) if each.code == "memory.worker_growth"]
    assert sorted(title.split(" grow")[0] for title in titles) == [
        "Memory of 1 worker of another loader",
        "Memory of 2 workers",
    ]
    (suspect,) = suspects(watch)
    assert suspect.expected == pytest.approx(2 * MIB / 1000)


def test_workers_of_another_loader_that_leave_files_open() -> None:
    watch = beside(lambda time: (other(901, 100 * MIB, descriptors=20 + 20 * time),))
    (made,) = growing(watch)
    assert made.code == "memory.fd_growth_worker"
    assert made.forecast is not None
    (finding,) = (each for each in judge(watch) if is_leak(each))
    assert finding.title.startswith("Open files of a worker of another loader grow by 20")
    assert suspects(watch) == ()


def test_what_open_files_take_is_told_once_of_another_loaders_workers_too() -> None:
    def others(time: float) -> tuple[ProcessReading, ...]:
        return (other(901, rising(MIB, 100 * MIB)(time), descriptors=20 + 200 * time),)

    seen = Cause(
        process="worker 0", file="data.py", line=7, type_name="bytes", count=1.0,
        bytes_per_epoch=5.0 * MIB, held_by=(),
    )  # fmt: skip
    watch = msgspec.structs.replace(beside(others), objects=(seen,))
    assert [each.code for each in growing(watch)] == ["memory.fd_growth_worker"]


def test_workers_that_hold_still_are_among_what_does_not_grow() -> None:
    watch = beside(lambda time: tuple(other(pid, 100 * MIB) for pid in IDS))
    (finding,) = (each for each in judge(watch) if each.code == "memory.no_growth")
    names = {each.name for each in finding.evidence}
    assert "memory of a worker of another loader: growth that could hide, per item" in names


def test_workers_that_come_and_go_have_no_memory_to_follow() -> None:
    """Each epoch's are other ones, and each time they hold more."""
    watch = beside(lambda time: (other(1000 + int(time), rising(3 * MIB)(time)),))
    assert staying(watch) == {}
    assert not growing(watch)
    assert epochs_wanted(watch) is None


def test_of_iterators_that_are_kept_the_first_workers_count() -> None:
    """With each epoch there are two more, and each holds more than those before."""

    def others(time: float) -> tuple[ProcessReading, ...]:
        return tuple(
            other(1000 + 10 * epoch + n, epoch * MIB)
            for epoch in range(max(1, math.ceil(time)))
            for n in range(2)
        )

    watch = beside(others)
    assert staying(watch) == {None: frozenset({1000, 1001, 1010, 1011})}
    assert [each.code for each in growing(watch)] == ["memory.workers_pile_up"]
    assert epochs_wanted(watch) is None


def test_another_program_that_grows_is_no_worker() -> None:
    watch = beside(
        lambda time: (
            other(700, rising(5 * MIB, 80 * MIB)(time), program="wandb-core"),
            other(901, 100 * MIB),
        )
    )
    (finding,) = (each for each in judge(watch) if is_leak(each))
    assert finding.code == "memory.other_process_growth"
    assert finding.title.startswith("The memory of wandb-core grows by 5.00 MiB an epoch (")
    assert "another program" in finding.title
    assert suspects(watch) == ()


def test_another_program_that_goes_up_and_down_holds_no_verdict_up() -> None:
    swing = (0, 9, 3, 14, 1, 12, 7, 15, 2, 11, 5, 13)
    watch = beside(
        lambda time: (other(700, 80 * MIB + 4 * MIB * swing[min(11, int(time))], program="wandb"),)
    )
    assert epochs_wanted(watch) is None
    assert "memory.no_growth" in {each.code for each in judge(watch)}


def test_programs_that_are_started_and_never_end_pile_up() -> None:
    def others(time: float) -> tuple[ProcessReading, ...]:
        return tuple(other(900 + n, 5 * MIB, program="ffmpeg") for n in range(int(3 * time)))

    (made,) = growing(beside(others))
    assert made.code == "memory.programs_pile_up"
    assert made.per_epoch == pytest.approx(3, rel=0.05)
    assert [each.code for each in judge(beside(others)) if is_leak(each)] == [made.code]


def test_programs_that_come_and_go_leave_nothing_open() -> None:
    def others(time: float) -> tuple[ProcessReading, ...]:
        many = (3, 0, 5, 1, 4)[int(9 * time) % 5]
        return tuple(other(1000 + n, 5 * MIB, program="git") for n in range(many))

    watch = beside(others)
    assert not growing(watch)
    assert epochs_wanted(watch) is None


def test_a_pool_of_programs_that_fills_up_is_none_that_grows() -> None:
    def others(time: float) -> tuple[ProcessReading, ...]:
        return tuple(
            other(1000 + n, 5 * MIB, program="compile_worker") for n in range(min(6, int(4 * time)))
        )

    assert not growing(beside(others))
