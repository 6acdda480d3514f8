"""Slots are free when devices have read them, whatever the order of what happens."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from feedrate.loader.quarantine import Quarantine


class Lane:
    """A stream: so much work was given, so much is done."""

    def __init__(self) -> None:
        self.given = 0
        self.done = 0


class Mark:
    def __init__(self, lanes: list[Lane]) -> None:
        self._lanes = lanes
        self._at = [lane.given for lane in lanes]

    def passed(self) -> bool:
        return all(lane.done >= at for lane, at in zip(self._lanes, self._at, strict=True))


class World:
    """Two streams and slots that they read; a slot that is freed while it is read is wrong."""

    def __init__(self) -> None:
        self.lanes = [Lane(), Lane()]
        self.fences = 0
        self.quarantine = Quarantine(self.fence)
        self.read_until: list[list[int]] = []
        self.held: list[int] = []
        self.freed: list[int] = []

    def fence(self) -> Mark:
        self.fences += 1
        return Mark(self.lanes)

    def make(self) -> None:
        self.held.append(len(self.read_until))
        self.read_until.append([0, 0])

    def read(self, slot: int, lane: int) -> None:
        self.lanes[lane].given += 1
        self.read_until[slot][lane] = self.lanes[lane].given

    def drop(self, slot: int) -> None:
        self.held.remove(slot)
        self.quarantine.add(self._freer(slot))

    def _freer(self, slot: int) -> Callable[[], None]:
        def free() -> None:
            for lane, until in zip(self.lanes, self.read_until[slot], strict=True):
                assert lane.done >= until, "freed while it was read"
            self.freed.append(slot)

        return free

    def work(self, lane: int, count: int) -> None:
        self.lanes[lane].done = min(self.lanes[lane].done + count, self.lanes[lane].given)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["make", "read", "read", "drop", "settle", "work"]),
        st.integers(0, 50),
        st.integers(0, 1),
    ),
    max_size=80,
)


@given(STEPS)
def test_no_slot_is_freed_while_it_is_read_and_all_are_in_the_end(
    steps: list[tuple[str, int, int]],
) -> None:
    world = World()
    for what, number, lane in steps:
        if what == "make":
            world.make()
        elif what == "settle":
            world.quarantine.settle()
        elif what == "work":
            world.work(lane, number)
        elif world.held:
            slot = world.held[number % len(world.held)]
            if what == "read":
                world.read(slot, lane)
            else:
                world.drop(slot)
    assert not world.quarantine.broken
    while world.held:
        world.drop(world.held[0])
    for lane in (0, 1):
        world.work(lane, 2**31)
    for _ in range(3):  # passed fences, a last one, and that one
        world.quarantine.settle()
    assert sorted(world.freed) == list(range(len(world.read_until)))
    assert len(world.quarantine) == 0


def test_slots_that_wait_share_fences() -> None:
    world = World()
    world.lanes[0].given = 1  # a device that does not get on
    for _ in range(100):
        world.make()
        world.drop(world.held[0])
        world.quarantine.settle()
    assert world.fences == 2
    assert len(world.quarantine) == 100
    world.work(0, 1)
    world.quarantine.settle()
    world.quarantine.settle()
    assert world.fences == 3
    assert len(world.freed) == 100


def test_without_slots_no_device_is_asked() -> None:
    world = World()
    world.quarantine.settle()
    assert world.fences == 0


def test_where_a_fence_fails_nothing_is_freed_any_more() -> None:
    world = World()
    for _ in range(2):
        world.make()
    world.drop(0)
    world.quarantine.settle()

    def fail() -> Mark:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    world.quarantine._set_fence = fail
    world.drop(1)
    world.quarantine.settle()
    assert world.quarantine.broken
    assert world.freed == [0]
    assert len(world.quarantine) == 1
    world.quarantine.settle()
    assert world.freed == [0]


def test_slots_that_end_while_others_are_freed_wait_for_their_own_fence() -> None:
    world = World()
    quarantine = world.quarantine

    def free_and_end_another() -> None:
        world.make()
        world.read(0, 0)
        world.drop(0)
        quarantine.settle()  # as a garbage collection may do right here

    quarantine.add(free_and_end_another)
    quarantine.settle()
    quarantine.settle()
    assert world.freed == []
    world.work(0, 1)
    quarantine.settle()
    quarantine.settle()
    assert world.freed == [0]


def test_many_threads_end_slots_and_settle() -> None:
    world = World()

    def end_some() -> None:
        for _ in range(300):
            world.quarantine.add(lambda: world.freed.append(0))
            world.quarantine.settle()

    threads = [threading.Thread(target=end_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(3):
        world.quarantine.settle()
    assert len(world.freed) == 1200


def test_a_forked_process_frees_nothing_of_its_parent() -> None:
    world = World()
    world.make()
    world.drop(0)
    world.quarantine.settle()
    world.quarantine._turn.acquire()  # another thread is at it when it is forked
    pid = os.fork()
    if pid == 0:
        world.quarantine.settle()
        world.quarantine.add(lambda: world.freed.append(7))  # its own slots are its own
        world.quarantine.settle()
        world.quarantine.settle()
        os._exit(0 if world.freed == [7] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    world.quarantine._turn.release()
    world.quarantine.settle()
    assert world.freed == [0]
