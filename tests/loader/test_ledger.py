"""The ledger: order and completeness, whatever happens to the workers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from feedrate.loader.ledger import Ledger


def test_batches_are_taken_by_number_and_only_once_they_have_arrived() -> None:
    ledger = Ledger(in_order=True)
    first, second = ledger.send("a", 0), ledger.send("b", 1)
    assert ledger.next_worker() == 0
    ledger.arrive(second, "B")
    assert ledger.take() is None
    ledger.arrive(first, "A")
    assert [ledger.take().data for _ in range(2)] == ["A", "B"]  # type: ignore[union-attr]
    assert len(ledger) == 0
    assert ledger.next_worker() is None


def test_out_of_order_they_are_taken_as_they_arrive() -> None:
    ledger = Ledger(in_order=False)
    first, second = ledger.send("a", 0), ledger.send("b", 1)
    ledger.arrive(second, "B")
    assert ledger.take().data == "B"  # type: ignore[union-attr]
    assert ledger.take() is None
    ledger.arrive(first, "A")
    assert ledger.take().data == "A"  # type: ignore[union-attr]


def test_what_is_not_awaited_is_not_taken() -> None:
    ledger = Ledger(in_order=True)
    number = ledger.send("a", 0)
    assert ledger.arrive(number, "A")
    assert not ledger.arrive(number, "again")
    assert not ledger.arrive(99, "never sent")
    task = ledger.take()
    assert task is not None
    assert task.data == "A"


def test_none_is_data_too() -> None:
    ledger = Ledger(in_order=True)
    ledger.arrive(ledger.send("a", 0), None)
    task = ledger.take()
    assert task is not None
    assert task.data is None


def test_the_batches_of_an_exhausted_worker_are_skipped() -> None:
    ledger = Ledger(in_order=True)
    for worker in (0, 1, 0, 1):
        ledger.send("x", worker)
    ledger.arrive(1, "one")
    assert ledger.drop(0) == 2
    assert ledger.next_worker() == 1
    assert ledger.take().data == "one"  # type: ignore[union-attr]
    ledger.arrive(3, "three")
    assert ledger.take().data == "three"  # type: ignore[union-attr]
    assert (len(ledger), ledger.load(0), ledger.load(1)) == (0, 0, 0)


def test_moved_batches_keep_their_number_and_count_the_attempt() -> None:
    ledger = Ledger(in_order=True)
    numbers = [ledger.send(i, 0) for i in range(3)]
    ledger.arrive(numbers[0], "zero")
    assert [number for number, _ in ledger.unfinished(0)] == numbers[1:]
    assert ledger.move(numbers[1], 1, failed=True).attempts == 2
    assert ledger.move(numbers[2], 1, failed=False).attempts == 1
    assert (ledger.load(0), ledger.load(1)) == (1, 2)


@given(st.integers(0, 2**32), st.integers(1, 30), st.booleans())
def test_every_batch_comes_once_and_in_order_through_deaths(
    seed: int, total: int, in_order: bool
) -> None:
    rng = random.Random(seed)
    ledger = Ledger(in_order=in_order)
    sent, taken = 0, []
    while len(taken) < total:
        pending = [number for number, task in ledger.tasks() if not task.arrived]
        if sent < total and (not pending or rng.random() < 0.4):
            ledger.send(sent, rng.randrange(4))
            sent += 1
        elif rng.random() < 0.2:
            for number, _ in ledger.unfinished(rng.randrange(4)):
                ledger.move(number, rng.randrange(4), failed=True)
        else:
            number = rng.choice(pending)
            assert ledger.arrive(number, number)
        while (task := ledger.take()) is not None:
            assert task.data == task.index
            taken.append(task.index)
    assert sorted(taken) == list(range(total))
    assert taken == sorted(taken) or not in_order
    assert sum(ledger.load(worker) for worker in range(4)) == 0
