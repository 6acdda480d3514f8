"""The guard on a fake machine: a clock that is told the time, memory that is told its size."""

from __future__ import annotations

import gc
import logging
import mmap
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from feedrate.host.limits import MemoryLimits
from feedrate.memory_records import DeviceReading, MemoryReading, MemorySnapshot
from feedrate.remedies.memory_guard import MemoryGuard
from feedrate.remedies.memory_sight import SystemSight
from feedrate.remedies.relief import Relief

MIB = 2**20
LIMIT = 1000 * MIB


class Machine:
    """Memory, a clock and a device, all told what to be."""

    def __init__(self, free: int = 500 * MIB) -> None:
        self.now = 0.0
        self.free = free
        self.own = 300 * MIB
        self.cached: int | None = None
        self.on_collect: Callable[[], None] = lambda: None
        self.looks = 0

    def clock(self) -> float:
        return self.now

    def limits(self) -> MemoryLimits:
        self.looks += 1
        return MemoryLimits(
            total=64 * LIMIT,
            available=60 * LIMIT,
            cgroup_limit=LIMIT,
            cgroup_used=LIMIT - self.free,
            free=self.free,
            source="cgroup limit",
        )

    def own_bytes(self) -> int | None:
        return self.own

    def tree(self, at: float) -> MemorySnapshot | None:
        return MemorySnapshot(
            at=at, main=MemoryReading(rss=400 * MIB, pss=350 * MIB),
            workers=MemoryReading(rss=900 * MIB, pss=200 * MIB), worker_count=2,
            shm_bytes=0, main_descriptors=10, worker_descriptors=20,
        )  # fmt: skip

    def device(self) -> DeviceReading | None:
        if self.cached is None:
            return None
        return DeviceReading(allocated=100 * MIB, reserved=100 * MIB + self.cached)

    def empty_device_cache(self) -> None:
        self.now += 0.5
        self.cached = 0


class Elastic:
    """What a guard needs of a loader whose workers can go."""

    pilot = None

    def __init__(self, workers: int, machine: Machine | None = None) -> None:
        self.num_workers = workers
        self.machine = machine

    def shrink(self, count: int) -> None:
        if count >= self.num_workers:
            raise ValueError("one has to stay")
        self.num_workers -= count

    def __iter__(self) -> Any:
        return iter(range(5))

    def __len__(self) -> int:
        return 5


def guard(machine: Machine, *args: Any, **options: Any) -> MemoryGuard:
    return MemoryGuard(*args, sight=machine, clock=machine.clock, **options)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "feedrate")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "feedrate"]


def advance(machine: Machine, made: MemoryGuard, seconds: float, free: int | None = None) -> bool:
    machine.now += seconds
    if free is not None:
        machine.free = free
    return made.check()


def test_it_logs_at_intervals(lines: Callable[[], list[str]]) -> None:
    machine = Machine()
    machine.cached = 50 * MIB
    made = guard(machine, interval=60)
    for _ in range(121):
        assert not advance(machine, made, 1)
    line = (
        "memory: main process 350 MiB, 2 workers 200 MiB, 500 MiB left (cgroup limit), "
        "device 100 MiB in tensors, 150 MiB reserved"
    )
    assert lines() == [line] * 3


def test_looks_are_not_taken_more_often_than_needed() -> None:
    machine = Machine()
    made = guard(machine)
    for _ in range(100):
        advance(machine, made, 0.01)
    assert machine.looks <= 5


def test_near_the_limit_on_limit_is_called_once() -> None:
    machine = Machine()
    told: list[MemoryLimits] = []
    made = guard(machine, told.append)
    assert not advance(machine, made, 1)
    assert advance(machine, made, 100, 90 * MIB)
    for _ in range(5):
        assert advance(machine, made, 1)
    assert [each.free for each in told] == [90 * MIB]


def test_after_it_has_recovered_it_is_called_again() -> None:
    machine = Machine()
    told: list[MemoryLimits] = []
    made = guard(machine, told.append)
    for free in (90, 120, 90, 400, 400, 90):  # 120 is still around the margin of 100
        advance(machine, made, 100, free * MIB)
    assert len(told) == 2


@pytest.mark.parametrize("near", [0.05, 0.2, 1 / 3, 0.5, 0.9])
def test_it_recovers_wherever_near_is(near: float) -> None:
    machine = Machine(free=980 * MIB)
    told: list[MemoryLimits] = []
    made = guard(machine, told.append, near=near)
    used_up = int((1 - near) * 900) * MIB  # of 1000
    for _ in range(2):
        assert advance(machine, made, 100, used_up)
        assert not advance(machine, made, 100, 980 * MIB)
    assert len(told) == 2


@pytest.mark.parametrize("near", [0.2, 0.9])
def test_around_the_margin_it_is_called_once(near: float) -> None:
    machine = Machine(free=980 * MIB)
    told: list[MemoryLimits] = []
    made = guard(machine, told.append, near=near)
    margin = round((1 - near) * 1000)
    for free in (-20, 20, -20, 40, -20):
        assert advance(machine, made, 100, (margin + free) * MIB)
    assert len(told) == 1


def test_what_on_limit_raises_ends_the_loop() -> None:
    machine = Machine(free=50 * MIB)

    def stop(limits: MemoryLimits) -> None:
        raise RuntimeError("saved")

    with pytest.raises(RuntimeError, match="saved"):
        for _ in guard(machine, stop).watch(range(3)):
            pass


def test_memory_that_runs_out_fast_is_near_its_end_before_the_margin() -> None:
    machine = Machine(free=400 * MIB)
    told: list[MemoryLimits] = []
    made = guard(machine, told.append)
    for free in (400, 330, 260, 190):  # 70 MiB a second: gone in less than three
        advance(machine, made, 1, free * MIB)
    assert [each.free for each in told] == [190 * MIB]


def test_a_model_that_is_loaded_is_no_end() -> None:
    machine = Machine(free=900 * MIB)
    told: list[MemoryLimits] = []
    made = guard(machine, told.append)
    for free in (900, 300, 300):
        assert not advance(machine, made, 1, free * MIB)
    assert told == []


def test_collecting_may_be_enough(
    monkeypatch: pytest.MonkeyPatch, lines: Callable[[], list[str]]
) -> None:
    machine = Machine(free=90 * MIB)
    told: list[MemoryLimits] = []

    def collect() -> int:
        machine.now += 0.25
        machine.own -= 200 * MIB
        machine.free += 200 * MIB
        return 1234

    monkeypatch.setattr(gc, "collect", collect)
    guard(machine, told.append).check()
    assert told == []
    assert "memory: collecting cycles freed 200 MiB (250 ms)" in lines()


def test_what_was_freed_is_measured(
    monkeypatch: pytest.MonkeyPatch, lines: Callable[[], list[str]]
) -> None:
    machine = Machine()
    machine.cached = 70 * MIB
    made = guard(machine)
    assert made.empty_device_cache() == Relief("device cache", 70 * MIB, 0.5)
    monkeypatch.setattr(gc, "collect", lambda: 3)
    found = made.collect()
    assert found == Relief("collection", 0, 0.0, 3)
    assert not found.helped
    assert lines() == [
        "memory: emptying the device cache freed 70.0 MiB (500 ms)",
        "memory: collecting cycles did not help (0 s)",
    ]


def test_workers_go_one_at_a_time_before_on_limit() -> None:
    machine = Machine(free=80 * MIB)
    told: list[MemoryLimits] = []
    loader = Elastic(3)
    made = guard(machine, told.append, loader=loader)
    counts = []
    for _ in range(20):
        advance(machine, made, 1)
        counts.append(loader.num_workers)
    assert counts[0] == 2  # at once
    assert counts[3] == 2  # while it delivers what it holds
    assert counts[-1] == 1
    assert len(told) == 1  # and one has to stay


def test_there_is_no_time_for_workers_when_half_the_margin_is_gone() -> None:
    machine = Machine(free=40 * MIB)
    told: list[MemoryLimits] = []
    loader = Elastic(3)
    guard(machine, told.append, loader=loader).check()
    assert (len(told), loader.num_workers) == (1, 3)


def test_a_loader_that_steers_itself_is_left_alone() -> None:
    machine = Machine(free=80 * MIB)
    loader = Elastic(3)
    loader.pilot = object()  # type: ignore[assignment]
    guard(machine, loader=loader).check()
    assert loader.num_workers == 3


def test_the_loop_that_it_watches_is_the_loader() -> None:
    machine = Machine(free=80 * MIB)
    loader = Elastic(3)
    watched = guard(machine).watch(loader)
    assert len(watched) == 5
    assert list(watched) == [0, 1, 2, 3, 4]
    assert loader.num_workers == 2


def test_as_a_callback_it_ignores_what_it_is_given() -> None:
    machine = Machine(free=40 * MIB)
    told: list[MemoryLimits] = []
    guard(machine, told.append).callback("trainer", batch=3)
    assert len(told) == 1


def test_as_a_context_it_looks_from_a_thread() -> None:
    machine = Machine(free=40 * MIB)
    called = threading.Event()

    def on_limit(limits: MemoryLimits) -> None:
        called.set()

    loader = Elastic(3)
    with guard(machine, on_limit, loader=loader):
        assert called.wait(30)
    assert loader.num_workers == 3  # never from the thread


def test_what_on_limit_raises_in_the_thread_comes_out_at_the_end() -> None:
    machine = Machine(free=40 * MIB)
    called = threading.Event()

    def stop(limits: MemoryLimits) -> None:
        called.set()
        raise RuntimeError("saved")

    def train() -> None:
        with guard(machine, stop):
            assert called.wait(30)

    with pytest.raises(RuntimeError, match="saved"):
        train()


def test_after_on_limit_has_raised_in_the_thread_it_goes_on_watching(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("feedrate.remedies.memory_guard.LOOK_SECONDS", 0.001)
    machine = Machine(free=40 * MIB)
    told: list[int] = []

    def stop(limits: MemoryLimits) -> None:
        told.append(limits.free)
        raise SystemExit(f"saved {len(told)}")

    def looks(count: int) -> None:
        """Wait until the thread has looked so often."""
        for _ in range(count):
            before = machine.looks
            machine.now += 1
            deadline = time.monotonic() + 30
            while machine.looks == before and time.monotonic() < deadline:
                time.sleep(0.001)

    def train() -> None:
        with guard(machine, stop):
            looks(3)
            machine.free = 500 * MIB
            looks(3)
            machine.free = 40 * MIB
            looks(3)

    with pytest.raises(SystemExit, match="saved 1"):
        train()
    assert told == [40 * MIB] * 2
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == [
        "memory: SystemExit('saved 1'); watching goes on, and it is raised when the context ends",
        "memory: SystemExit('saved 2'); watching goes on",
    ]
    assert all(record.exc_info for record in errors)


def test_an_error_that_every_look_meets_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("feedrate.remedies.memory_guard.LOOK_SECONDS", 0.001)
    machine = Machine()
    often = threading.Event()

    def limits() -> MemoryLimits:
        machine.looks += 1
        if machine.looks == 5:
            often.set()
        raise PermissionError("no /proc")

    monkeypatch.setattr(machine, "limits", limits)

    def train() -> None:
        with guard(machine):
            assert often.wait(30)

    with pytest.raises(PermissionError, match="no /proc"):
        train()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_the_users_own_error_is_not_hidden() -> None:
    machine = Machine(free=40 * MIB)
    called = threading.Event()

    def stop(limits: MemoryLimits) -> None:
        called.set()
        raise RuntimeError("saved")

    def train() -> None:
        with guard(machine, stop):
            assert called.wait(30)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train()


def test_in_a_context_a_loop_that_comes_by_acts_itself() -> None:
    """The thread leaves it to the loop, unless that is in a long step."""
    machine = Machine()
    by: list[str] = []

    def on_limit(limits: MemoryLimits) -> None:
        by.append(threading.current_thread().name)

    made = guard(machine, on_limit)
    made.check()
    machine.free = 40 * MIB
    made._look_from_outside()
    assert by == []
    machine.now += 1
    made.check()
    assert by == [threading.current_thread().name]
    machine.now += 1
    machine.free = 500 * MIB
    made.check()
    machine.free = 40 * MIB
    machine.now += 10  # a long step
    made._look_from_outside()
    assert len(by) == 2


@pytest.mark.parametrize("options", [{"near": 0}, {"near": 1.5}, {"interval": 0}])
def test_arguments_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"near is a share|interval must be"):
        MemoryGuard(**options)


def test_the_sight_of_this_machine() -> None:
    sight = SystemSight()
    assert sight.limits().free > 0
    own = sight.own_bytes()
    held = mmap.mmap(-1, 32 * MIB)  # pages of its own: an allocator may have some to reuse
    held.write(b"x" * (32 * MIB))
    grown = sight.own_bytes()
    assert own is not None
    assert grown is not None
    assert grown - own > 30 * MIB
    held.close()
    tree = sight.tree(1.5)
    assert tree is not None
    assert (tree.at, tree.worker_count) == (1.5, 0)
    sight.empty_device_cache()  # nothing happens where no device is in use
    assert sight.device() is None
