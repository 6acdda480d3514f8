"""The measured loop, on a clock that only moves when it is told to."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset

from feedrate.measure.loop import make_epoch, run_epoch
from feedrate.records import Epoch

pytestmark = pytest.mark.torch


class FakeClock:
    """Tells the same time until someone lets some pass.

    Tests spend multiples of 1/128 s, which neither floats nor seven digits round.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


class ScriptedLoader:
    """Takes the given times to begin, for each batch, and to find the end."""

    def __init__(
        self, clock: FakeClock, waits: list[float], begin: float = 0, end: float = 0
    ) -> None:
        self.clock, self.waits, self.begin, self.end = clock, waits, begin, end

    def __iter__(self) -> Iterator[torch.Tensor]:
        self.clock.spend(self.begin)
        return self._batches()

    def _batches(self) -> Iterator[torch.Tensor]:
        for wait in self.waits:
            self.clock.spend(wait)
            yield torch.zeros(4)
        self.clock.spend(self.end)


def run(loader: Any, step: Any = None, **changes: Any) -> Epoch:
    fields: dict[str, Any] = {
        "clock": FakeClock(),
        "synchronize": lambda: None,
        "on_progress": lambda _: None,
    }
    return run_epoch(loader, step, **(fields | changes))


def test_waits_steps_beginning_and_end_add_up_exactly():
    clock = FakeClock()
    loader = ScriptedLoader(clock, [0.5, 0.25, 0.125], begin=1.0, end=0.0625)
    steps = iter([0.375, 0.25, 0.125])
    epoch = run(
        loader,
        lambda _: clock.spend(next(steps)),
        clock=clock,
        synchronize=lambda: clock.spend(0.03125),
    )
    assert epoch.begin_seconds == 1.0
    assert epoch.batch_waits == (0.5, 0.25, 0.125)
    assert epoch.batch_steps == (0.375, 0.25, 0.125)
    assert epoch.end_seconds == 0.09375
    assert epoch.wait_seconds == 1.96875
    assert epoch.step_seconds == 0.75
    assert epoch.seconds == 2.71875
    assert (epoch.batches, epoch.items, epoch.complete) == (3, 12, True)


TIMES = st.integers(0, 2**16).map(lambda ticks: ticks / 128)


@given(waits=st.lists(TIMES, max_size=20), begin=TIMES, end=TIMES, step=TIMES, sync=TIMES)
def test_any_times_come_out_as_they_went_in(
    waits: list[float], begin: float, end: float, step: float, sync: float
):
    clock = FakeClock()
    epoch = run(
        ScriptedLoader(clock, waits, begin, end),
        lambda _: clock.spend(step),
        clock=clock,
        synchronize=lambda: clock.spend(sync),
    )
    assert epoch.batch_waits == tuple(waits)
    assert epoch.batch_steps == (step,) * len(waits)
    assert epoch.begin_seconds == begin
    assert epoch.end_seconds == end + sync
    assert epoch.seconds == begin + math.fsum(waits) + step * len(waits) + end + sync


def test_an_epoch_without_batches_has_times_and_nothing_else():
    clock = FakeClock()
    epoch = run(ScriptedLoader(clock, [], begin=0.5, end=0.25), clock=clock)
    assert (epoch.batches, epoch.items, epoch.seconds, epoch.complete) == (0, 0, 0.75, True)


@pytest.mark.parametrize(
    ("limit", "batches", "complete"),
    [(1, 1, False), (2, 2, False), (3, 3, False), (4, 3, True), (None, 3, True)],
)
def test_max_batches_ends_an_epoch_early(limit: int | None, batches: int, complete: bool):
    clock = FakeClock()
    asked: list[int] = []

    class Counting(ScriptedLoader):
        def _batches(self) -> Iterator[torch.Tensor]:
            for batch in super()._batches():
                asked.append(1)
                yield batch

    loader = Counting(clock, [0.1, 0.2, 0.3], end=5)
    epoch = run(loader, clock=clock, max_batches=limit)
    assert (epoch.batches, epoch.complete) == (batches, complete)
    assert len(asked) == batches  # no batch is asked for that is not measured
    assert epoch.end_seconds == (5 if complete else 0)


def test_progress_is_told_at_the_first_batch_and_then_every_fifth_of_a_second():
    clock = FakeClock()
    told: list[int] = []
    loader = ScriptedLoader(clock, [0] + [0.0625] * 16)
    run(loader, clock=clock, on_progress=told.append)
    assert told == [1, 5, 9, 13, 17]  # 0.25 s apart: the first time that 0.2 s have passed


@given(start=st.floats(0, 1e9), wait=st.sampled_from([0.0, 1e-7, 0.2]))
def test_the_first_batch_is_always_told(start: float, wait: float):
    told: list[int] = []
    clock = FakeClock(start)
    run(ScriptedLoader(clock, [wait]), clock=clock, on_progress=told.append)
    assert told == [1]


def test_the_time_of_progress_counts_as_step():
    clock = FakeClock()
    epoch = run(
        ScriptedLoader(clock, [0.5, 0.5]), clock=clock, on_progress=lambda _: clock.spend(0.125)
    )
    assert epoch.batch_steps == (0.125, 0.125)


def test_on_first_is_called_once_and_outside_every_time():
    clock = FakeClock()
    seen: list[torch.Tensor] = []

    def on_first(batch: torch.Tensor) -> None:
        seen.append(batch)
        clock.spend(100)

    loader = ScriptedLoader(clock, [0.5, 0.25], end=0.125)
    epoch = run(loader, lambda _: clock.spend(0.25), clock=clock, on_first=on_first)
    assert len(seen) == 1
    assert epoch.batch_waits == (0.5, 0.25)
    assert epoch.batch_steps == (0.25, 0.25)
    assert epoch.seconds == 1.375


def test_without_batches_on_first_is_not_called():
    run([], on_first=lambda _: pytest.fail("there is no first batch"))


def raise_it(error: BaseException) -> Callable[..., Any]:
    def raises(*_: object) -> Any:
        raise error

    return raises


class BadLoader:
    def __init__(self, iterate: Callable[..., Any]) -> None:
        self._iterate = iterate

    def __iter__(self) -> Iterator[Any]:
        return self._iterate()  # type: ignore[no-any-return]


def one_then(error: BaseException) -> Iterator[int]:
    yield 1
    raise error


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, StopIteration, SystemExit])
def test_errors_pass_through_wherever_they_come_from(kind: type[BaseException]):
    error = kind("it")
    with pytest.raises(kind) as caught:
        run([1], raise_it(error))
    assert caught.value is error
    with pytest.raises(kind) as caught:
        run(BadLoader(raise_it(error)))
    assert caught.value is error
    with pytest.raises(kind) as caught:
        run([1], on_first=raise_it(error))
    assert caught.value is error
    with pytest.raises(kind) as caught:
        run([1], synchronize=raise_it(error))
    assert caught.value is error


def test_an_error_after_a_batch_passes_through():
    error = ValueError("it")
    steps: list[int] = []
    with pytest.raises(ValueError, match="it") as caught:
        run(BadLoader(lambda: one_then(error)), steps.append)
    assert caught.value is error
    assert steps == [1]


class Tracked:
    """A batch of which one can see whether it still lives."""


class LifeLog:
    """Hands out batches and notes, at every border of the loop, which of them live."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.living: list[weakref.ref[Tracked]] = []
        self.log: list[tuple[str, tuple[int, ...]]] = []

    def note(self, place: str) -> None:
        alive = tuple(i for i, ref in enumerate(self.living) if ref() is not None)
        self.log.append((place, alive))

    def __iter__(self) -> LifeLog:
        return self

    def __next__(self) -> Tracked:
        self.note("asked")
        if len(self.living) == self.batches:
            raise StopIteration
        batch = Tracked()
        self.living.append(weakref.ref(batch))
        return batch

    def step(self, batch: Tracked) -> None:
        self.note("step")


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_batch_lives_exactly_as_long_as_in_a_plain_for_loop(batches: int):
    plain, measured = LifeLog(batches), LifeLog(batches)

    def train() -> None:
        for batch in plain:
            plain.step(batch)
        plain.note("end")

    train()
    run(measured, measured.step, synchronize=lambda: measured.note("end"))
    plain.note("after")
    measured.note("after")
    assert measured.log == plain.log
    assert ("asked", (0,)) in plain.log or batches == 0  # the log can tell


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)


LOADERS = st.builds(
    lambda numbers, kind, size, drop, seed: {
        "dataset": Stream(numbers) if kind == "stream" else numbers,
        "batch_size": size,
        "drop_last": drop and size is not None,
        "shuffle": kind == "shuffled",
        "generator": seed,
    },
    st.lists(st.integers(0, 99), min_size=1, max_size=30),
    st.sampled_from(["stream", "shuffled", "in order"]),
    st.one_of(st.none(), st.integers(1, 8)),
    st.booleans(),
    st.integers(0, 9),
)


def make_loader(arguments: dict[str, Any]) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(arguments["generator"])
    return DataLoader(**(arguments | {"generator": generator}))


@given(arguments=LOADERS)
def test_the_step_sees_what_a_plain_for_loop_sees(arguments: dict[str, Any]):
    plain, measured = make_loader(arguments), make_loader(arguments)
    for _ in range(2):
        expected = [repr(batch) for batch in plain]
        seen: list[str] = []
        epoch = run(measured, lambda batch, seen=seen: seen.append(repr(batch)))
        assert seen == expected
        assert epoch.batches == len(expected)


@given(length=st.integers(9, 40), size=st.sampled_from([1, 4, 5, 7, 9]))
def test_the_items_of_an_epoch_are_the_datasets(length: int, size: int):
    # Batches of two or three would look like the two fields or the three channels of one item.
    images = [(torch.zeros(3, 2, 2), "name") for _ in range(length)]
    for collate in (None, list, lambda rows: tuple(zip(*rows, strict=True))):
        loader = DataLoader(images, batch_size=size, collate_fn=collate)  # type: ignore[arg-type]
        assert run(loader).items == length


def test_times_are_kept_to_a_tenth_of_a_microsecond_and_sums_fit():
    epoch = make_epoch(
        begin=0.123456789,
        end=0.0,
        waits=[1 / 3] * 1000,
        steps=[1e-8] * 1000,
        items=1000,
        complete=True,
    )
    assert epoch.begin_seconds == 0.1234568
    assert set(epoch.batch_waits) == {0.3333333}
    assert set(epoch.batch_steps) == {0.0}
    assert epoch.seconds == pytest.approx(0.1234568 + 333.3333)
