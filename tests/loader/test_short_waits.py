"""Whether a wait is slept through, by how long the last one took."""

from __future__ import annotations

from feedrate.loader.short_waits import LONGEST_SECONDS, ShortWaits


class Clock:
    """Goes on by a step at every reading, and by what a sleep takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = LONGEST_SECONDS / 10

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Waiter:
    """Counts looks and sleeps; something is there at the look of a given number."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waits = ShortWaits(self.clock)
        self.looks = self.sleeps = 0

    def wait(self, *, at: int | None, slept: float = 0.0) -> str | None:
        self.looks = 0

        def look() -> str | None:
            self.looks += 1
            return "there" if self.looks == at else None

        def sleep() -> None:
            self.sleeps += 1
            self.clock.now += slept

        return self.waits.wait(look, sleep)


def test_a_short_wait_ends_without_sleep() -> None:
    waiter = Waiter()
    assert waiter.wait(at=3) == "there"
    assert (waiter.looks, waiter.sleeps) == (3, 0)


def test_a_long_wait_is_slept_through_after_looking_for_a_while_and_the_next_at_once() -> None:
    waiter = Waiter()
    assert waiter.wait(at=None, slept=1.0) is None
    assert 5 < waiter.looks < 15
    assert waiter.sleeps == 1
    for _ in range(5):
        assert waiter.wait(at=None, slept=1.0) is None
        assert waiter.looks == 0


def test_after_a_sleep_that_was_short_it_looks_again() -> None:
    waiter = Waiter()
    waiter.wait(at=None, slept=1.0)
    assert waiter.wait(at=1) is None  # not looked for
    assert waiter.wait(at=1) == "there"
