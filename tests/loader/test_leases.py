"""Leases: what a forked process can see stays, however forks and ends of batches fall together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from feedrate.loader.leases import Leases

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


class Memory:
    """Stands for a slot's memory: what ends it calls `end`."""

    release: Callable[[], None]

    def end(self) -> None:
        self.release()


class Slots:
    """Counts how often each slot was freed."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.freed: list[str] = []

    def take(self, name: str) -> Memory:
        memory = Memory()
        self._leases.add(memory, lambda: self.freed.append(name))
        return memory


class Child:
    """A fork, step by step, with a pipe's end in a process's stead."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        leases.before_fork()
        fork = leases._forks[threading.get_ident()]
        assert fork.writes is not None
        self._writes = os.dup(fork.writes)

    def begin(self) -> Child:
        self._leases.in_parent()
        return self

    def end(self) -> None:
        os.close(self._writes)
        self._leases.settle()


def in_thread(work: Callable[[], Any]) -> Any:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(work()))
    thread.start()
    thread.join()
    return got[0]


def test_without_a_fork_a_slot_is_free_at_once() -> None:
    leases = Leases()
    slots = Slots(leases)
    slots.take("a").end()
    assert slots.freed == ["a"]


def test_what_a_child_can_see_is_free_when_it_ends() -> None:
    leases = Leases()
    slots = Slots(leases)
    before = slots.take("before")
    child = Child(leases).begin()
    after = slots.take("after")
    before.end()
    after.end()
    assert slots.freed == ["after"]
    child.end()
    assert slots.freed == ["after", "before"]


def test_a_batch_that_ends_while_it_forks_is_kept_for_the_child() -> None:
    leases = Leases()
    slots = Slots(leases)
    memory = slots.take("a")
    child = Child(leases)
    memory.end()  # in another thread, before the forking one has its turn again
    child.begin()
    assert slots.freed == []
    child.end()
    assert slots.freed == ["a"]


def test_a_batch_that_comes_while_it_forks_is_kept_for_the_child() -> None:
    leases = Leases()
    slots = Slots(leases)
    child = Child(leases)
    memory = slots.take("a")
    child.begin()
    memory.end()
    assert slots.freed == []
    child.end()
    assert slots.freed == ["a"]


def test_two_threads_fork_at_once() -> None:
    leases = Leases()
    slots = Slots(leases)
    memory = slots.take("a")
    mine = Child(leases)
    other = in_thread(lambda: Child(leases).begin())
    mine.begin()
    memory.end()
    mine.end()
    assert slots.freed == []
    other.end()
    assert slots.freed == ["a"]


def test_a_child_that_can_see_nothing_costs_no_descriptor() -> None:
    leases = Leases()
    child = Child(leases).begin()
    assert leases._pipes == {}
    child.end()


def test_without_descriptors_left_what_a_child_can_see_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leases = Leases()
    slots = Slots(leases)
    memory = slots.take("a")

    def none_left() -> tuple[int, int]:
        raise OSError("too many open files")

    monkeypatch.setattr(os, "pipe", none_left)
    leases.before_fork()
    leases.in_parent()
    memory.end()
    leases.settle()
    assert slots.freed == []


def test_the_next_batch_frees_what_an_ended_child_held(monkeypatch: pytest.MonkeyPatch) -> None:
    leases = Leases()
    slots = Slots(leases)
    memory = slots.take("a")
    child = Child(leases).begin()
    memory.end()
    os.close(child._writes)  # nobody says so
    monkeypatch.setattr(leases, "_looked_at", 0.0)
    last = slots.take("b")
    assert slots.freed == ["a"]
    last.end()


def test_a_batch_that_is_kept_for_long_costs_no_more_for_each_fork() -> None:
    leases = Leases()
    slots = Slots(leases)
    memory = slots.take("a")
    for _ in range(1000):
        Child(leases).begin().end()
    assert leases._pipes == {}
    assert leases._living == {0: 0}
    memory.end()
    assert slots.freed == ["a"]


def test_every_slot_is_freed_once_with_threads_that_end_batches_and_fork() -> None:
    leases = Leases()
    slots = Slots(leases)
    names = [f"{thread}/{number}" for thread in range(3) for number in range(200)]

    def work(thread: int) -> None:
        for number in range(200):
            memory = slots.take(f"{thread}/{number}")
            child = Child(leases).begin() if number % 10 == 0 else None
            memory.end()
            if child is not None:
                child.end()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    leases.settle()
    assert sorted(slots.freed) == sorted(names)
    assert leases._pipes == {}


def test_a_real_childs_copies_free_nothing() -> None:
    leases = Leases()
    slots = Slots(leases)
    memory = slots.take("a")
    leases.before_fork()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            leases.in_child()
            memory.end()
            code = len(slots.freed)
        finally:
            os._exit(code)
    leases.in_parent()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    memory.end()
    leases.settle()
    assert slots.freed == ["a"]
