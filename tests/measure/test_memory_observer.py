"""What looks at a child's marks become: phases, whose they are, when it is enough."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from builders import make_facts
from feedrate.measure import memory_observer, wire
from feedrate.measure.memory_observer import MemoryObserver, Seen, make_watch
from feedrate.memory_records import (
    DeviceReading,
    MemoryLook,
    MemoryReading,
    MemoryRoom,
    MemoryWatch,
    ProcessReading,
)

ALL = 1.0
"""All of the time may be spent on looking."""


def process(pid: int) -> ProcessReading:
    return ProcessReading(pid=pid, memory=MemoryReading(rss=2**20))


class FakeEyes:
    """Sees two workers, and one that belongs to another loader."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.whole: list[bool] = []
        self.one: list[bool] = []

    def look(
        self,
        *,
        at: float,
        epoch: int,
        items: int,
        own: Collection[int] | None,
        device: DeviceReading | None = None,
        whole: bool = True,
        one_worker: bool = False,
    ) -> MemoryLook | None:
        mine = (11, 12, 13) if own is None else tuple(own)
        self.whole.append(whole)
        self.one.append(one_worker)
        return MemoryLook(
            at=at,
            epoch=epoch,
            phase=0.0,
            items=items,
            main=process(self.pid),
            workers=tuple(process(pid) for pid in mine),
            device=device,
        )

    def room(self, look: MemoryLook, device_free: int | None) -> MemoryRoom:
        return MemoryRoom(memory=look.items, device=device_free)


def mark(epoch: int, batches: int, *, is_end: bool = False, **fields: object) -> wire.Mark:
    values = {
        "loader": 0,
        "items": 10 * (5 * epoch + batches),
        "length": 5,
        "workers": (11, 12),
    } | fields
    return wire.Mark(epoch=epoch, batches=batches, is_end=is_end, **values)  # type: ignore[arg-type]


def seen(*marks: wire.Mark) -> list[Seen]:
    eyes = FakeEyes(1)
    looks = [eyes.look(at=0.0, epoch=m.epoch, items=m.items, own=m.workers) for m in marks]
    return [Seen(mark=m, look=look) for m, look in zip(marks, looks, strict=True) if look]


def test_phases_are_shares_of_the_epoch_from_the_first_batch_to_the_last() -> None:
    watch = make_watch(seen(mark(0, 1), mark(0, 3), mark(0, 5, is_end=True)), 0, None)
    assert [look.phase for look in watch.looks] == [0.0, 0.5, 1.0]
    assert watch.complete_epochs == 1


def test_an_epoch_that_the_loop_leaves_early_ends_where_it_was_left() -> None:
    watch = make_watch(seen(mark(0, 2), mark(0, 3, is_end=True)), 0, None)
    assert [look.phase for look in watch.looks] == [0.5, 1.0]


def test_an_unknown_length_is_taken_from_other_epochs() -> None:
    marks = (mark(0, 5, is_end=True, length=None), mark(1, 3, length=None))
    watch = make_watch(seen(*marks), 0, None)
    assert [look.phase for look in watch.looks] == [1.0, 0.5]
    assert watch.complete_epochs == 1, "the second has not ended"


def test_only_the_end_is_phase_one() -> None:
    watch = make_watch(seen(mark(0, 5), mark(0, 7, is_end=False)), 0, None)
    assert all(look.phase < 1.0 for look in watch.looks)


def test_looks_at_other_loaders_are_left_out() -> None:
    watch = make_watch(seen(mark(0, 1, loader=1), mark(0, 1)), 0, make_facts(2))
    assert len(watch.looks) == 1
    assert watch.num_workers == 2


class Asked:
    """Says how many epochs more are wanted, and keeps after how many it was asked."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.after: list[int] = []

    def __call__(self, watch: MemoryWatch) -> int | None:
        self.after.append(watch.complete_epochs)
        return self.answers.pop(0)


def run(asked: Asked, epochs: int) -> tuple[MemoryObserver, list[bytes]]:
    looked: list[MemoryLook] = []
    observer = MemoryObserver(asked, 3, ALL, looked.append, FakeEyes)
    observer.attach(1)
    answers: list[bytes] = []
    for epoch in range(epochs):
        observer.marked(mark(epoch, 1), answers.append)
        observer.marked(mark(epoch, 5, is_end=True), answers.append)
    assert len(looked) == 2 * epochs
    return observer, answers


def test_it_ends_once_no_verdict_is_open() -> None:
    asked = Asked(None)
    _, answers = run(asked, 4)
    assert asked.after == [3]
    assert answers == [wire.GO] * 6 + [wire.STOP] * 2


def test_an_open_verdict_is_asked_for_again_half_way() -> None:
    asked = Asked(8, 2, None)
    run(asked, 12)
    assert asked.after == [3, 7, 8]


def test_what_was_seen_is_kept_with_its_cost_and_what_was_left() -> None:
    observer, _ = run(Asked(None), 4)
    watch = observer.watch(None, make_facts(2))
    assert watch is not None
    assert len(watch.looks) == 8
    assert 0 < watch.spent_seconds <= watch.seconds
    assert watch.room.memory == watch.looks[-1].items
    assert [each.pid for each in watch.looks[0].workers] == [11, 12]


def test_of_the_first_pass_one_worker_is_looked_into_and_of_all_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look at pages takes so long here that there is no time for more of them."""
    made: list[FakeEyes] = []

    class SlowEyes(FakeEyes):
        def look(self, **asked: Any) -> MemoryLook | None:
            if asked["whole"] or asked["one_worker"]:
                time.sleep(0.01)
            return super().look(**asked)

    def eyes(pid: int) -> FakeEyes:
        made.append(SlowEyes(pid))
        return made[0]

    monkeypatch.setattr(memory_observer, "LOOKED_AT", 0.0)
    observer = MemoryObserver(Asked(None), 3, 1e-4, lambda _: None, eyes)
    observer.attach(1)
    answers: list[bytes] = []
    for epoch in range(4):
        for batches in (1, 3, 5):
            is_last = (epoch, batches) == (3, 5)
            at = mark(epoch, batches, is_end=batches == 5, is_last=is_last, forked=True)
            observer.marked(at, answers.append)
    assert made[0].one == [True, False, True, *[False] * 7]
    assert made[0].whole == [*[False] * 9, True], "the last before looks rest"
    assert wire.STOP not in answers, "looking has taken more of the time than it may"


def test_the_last_look_costs_the_loop_nothing() -> None:
    class SlowAtTheEnd(FakeEyes):
        def look(self, **asked: Any) -> MemoryLook | None:
            if asked["whole"]:
                time.sleep(0.2)
            return super().look(**asked)

    observer = MemoryObserver(Asked(), 9, ALL, lambda _: None, SlowAtTheEnd)
    observer.attach(1)
    observer.marked(mark(0, 1), lambda _: None)
    observer.marked(mark(0, 5, is_end=True, is_last=True), lambda _: None)
    watch = observer.watch(None, make_facts(2))
    assert watch is not None
    assert len(watch.looks) == 2
    assert watch.spent_seconds < 0.2
    assert watch.spent_seconds <= watch.seconds


def test_the_look_at_which_the_child_is_told_to_end_is_a_whole_one() -> None:
    made: list[FakeEyes] = []

    def eyes(pid: int) -> FakeEyes:
        made.append(FakeEyes(pid))
        return made[0]

    observer = MemoryObserver(Asked(None), 3, ALL, lambda _: None, eyes)
    observer.attach(1)
    for epoch in range(3):
        observer.marked(mark(epoch, 5, is_end=True), lambda _: None)
    answers: list[bytes] = []
    observer.marked(mark(3, 3), answers.append)
    assert answers == [wire.STOP]
    assert made[0].whole[-1]


def test_a_watch_that_ctrl_c_ends_in_its_first_look_is_told_all_the_same() -> None:
    def interrupted(_: MemoryLook) -> None:
        raise KeyboardInterrupt

    observer = MemoryObserver(lambda _: None, 1, ALL, interrupted, FakeEyes)
    observer.attach(1)
    with pytest.raises(KeyboardInterrupt):
        observer.marked(mark(0, 1), lambda _: None)
    watch = observer.watch(None, None)
    assert watch is not None
    assert len(watch.looks) == 1
    assert watch.seconds == 0.0


def test_nothing_seen_is_no_watch() -> None:
    assert MemoryObserver(Asked(), 3, ALL, lambda _: None, FakeEyes).watch(None, None) is None


@pytest.mark.parametrize("number", [0, 1])
def test_the_loader_that_trains_is_the_one(number: int) -> None:
    observer = MemoryObserver(Asked(), 3, ALL, lambda _: None, FakeEyes)
    observer.attach(1)
    for which in (0, 1):
        observer.marked(mark(which, 1, loader=which), lambda _: None)
    used = wire.Used(loaders=(), training_loader=number)
    watch = observer.watch(used, None)
    assert watch is not None
    assert [look.epoch for look in watch.looks] == [number]


def test_where_all_is_known_looks_rest_until_they_have_taken_their_share_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(1, None, None)
    answers: list[bytes] = []
    observer = MemoryObserver(asked, 3, 1e-9, lambda _: None, FakeEyes)
    observer.attach(1)

    def epoch(number: int) -> None:
        observer.marked(mark(number, 5, is_end=True), answers.append)

    for number in range(6):
        epoch(number)
    assert asked.after == [], "the more epochs, the less can hide"
    monkeypatch.setattr(memory_observer, "LOOKED_AT", 0.0)
    for number in range(6, 9):
        epoch(number)
    assert asked.after == [7, 8], "it is open, and then it is not"
    assert answers == [wire.GO] * 8 + [wire.REST]
    epoch(9)
    assert answers[9:] == [wire.REST]
    monkeypatch.setattr(observer, "_duty", 1.0)
    epoch(10)
    assert asked.after == [7, 8]
    assert answers[10:] == [wire.STOP]
    watch = observer.watch(None, None)
    assert watch is not None
    assert [look.epoch for look in watch.looks] == list(range(9)), "equally far apart"
    assert (watch.complete_epochs, watch.rested_epochs) == (9, 2)


class FillingEyes(FakeEyes):
    """Sees the main process grow by 2 MiB an epoch, of 100 that are left at first."""

    def look(self, **seen: Any) -> MemoryLook | None:
        look = super().look(**seen)
        assert look is not None
        grown = MemoryReading(rss=(1 + 2 * look.epoch) * 2**20)
        return msgspec.structs.replace(look, main=ProcessReading(pid=1, memory=grown))

    def room(self, look: MemoryLook, device_free: int | None) -> MemoryRoom:
        return MemoryRoom(memory=101 * 2**20 - look.main.memory.rss)


def test_what_fills_the_memory_is_watched_no_longer_than_its_verdict_takes() -> None:
    answers: list[bytes] = []
    asked = Asked(None)
    observer = MemoryObserver(asked, 2, 1e-9, lambda _: None, FillingEyes)
    observer.attach(1)
    for number in range(3):
        observer.marked(mark(number, 5, is_end=True), answers.append)
    assert asked.after == [2]
    assert answers[:3] == [wire.GO, wire.GO, wire.STOP]


def test_a_pass_ends_where_it_went_no_further() -> None:
    observer = MemoryObserver(Asked(), 3, ALL, lambda _: None, FakeEyes)
    observer.attach(1)
    for stop in (mark(0, 1), mark(0, 3, is_end=True), mark(0, 5), mark(0, 9, is_end=True)):
        observer.marked(stop, lambda _: None)
    for stop in (mark(1, 1), mark(1, 3, is_end=True), mark(1, 7)):
        observer.marked(stop, lambda _: None)
    watch = observer.watch(None, None)
    assert watch is not None
    assert [look.phase for look in watch.looks] == [0.0, 0.25, 0.5, 1.0, 0.0, 0.25, 0.75]
    assert watch.complete_epochs == 1
