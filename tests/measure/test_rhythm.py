"""Passes and looks of known length, on a clock that is turned by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from feedrate.measure.rhythm import PHASES, Rhythm, place_of

FEWEST = 9
DUTY = 0.005


@dataclass
class Course:
    """What a rhythm chose: passes that were looked at, with the phases in each, and the places."""

    now: float = 0.0
    looked_at: dict[int, list[int]] = field(default_factory=dict)
    places: list[float] = field(default_factory=list)
    rhythm: Rhythm = field(init=False)

    def run(
        self,
        *,
        batch_seconds: float,
        passes: int,
        batches: int = 40,
        quick: float = 0.0015,
        whole: float = 0.025,
        seconds: float = 120.0,
        workers_end: bool = False,
        known_length: bool = True,
    ) -> Course:
        """Pass over a loader so many times, or until the time is up."""
        self.rhythm = Rhythm(lambda: self.now, duty=DUTY, seconds=seconds, fewest=FEWEST)
        for number in range(passes):
            self.rhythm.begins(workers_end=workers_end)
            for batch in range(1, batches + 1):
                self.now += batch_seconds
                is_end = batch == batches
                length = batches if known_length else None
                if self.rhythm.due(batch, length, is_end=is_end):
                    place = PHASES if is_end else place_of(batch, length)
                    phase = -1 if place is None else round(place)
                    self.looked_at.setdefault(number, []).append(phase)
                    self.places.append(-1.0 if place is None else place)
                    cost = whole if number == 0 and (is_end or batch == 1) else quick
                    self.now += cost
                    self.rhythm.looked(cost)
                if self.now >= seconds:
                    return self
        return self

    @property
    def share(self) -> float:
        return self.rhythm.spent / self.now


def test_the_first_passes_are_looked_at_one_by_one() -> None:
    """What fills up, as a cache does, does so there."""
    course = Course().run(batch_seconds=0.002, passes=40)
    assert list(course.looked_at)[:FEWEST] == list(range(FEWEST))


def test_a_first_pass_that_does_not_end_was_looked_at_in_equal_steps() -> None:
    """A worker that leaves its files open may die after some tens of batches."""
    course = Course().run(batch_seconds=0.002, batches=2000, passes=1, seconds=0.2)
    (phases,) = course.looked_at.values()
    assert 24 <= len(phases) <= 64


def test_short_passes_cost_less_and_less_of_the_time() -> None:
    course = Course().run(batch_seconds=0.002, passes=1000, seconds=500.0)
    assert course.share <= DUTY
    assert course.rhythm.stride > 1


@pytest.mark.parametrize("passes", [9, 18, 19, 40, 100, 333, 1000])
def test_enough_of_the_passes_looked_at_lie_equally_far_apart(passes: int) -> None:
    course = Course().run(batch_seconds=0.002, passes=passes)
    stride = course.rhythm.stride
    evenly = [number for number in course.looked_at if number % stride == 0]
    assert evenly == list(range(0, passes, stride))
    assert len(evenly) >= FEWEST


def test_each_pass_looked_at_has_its_last_batch() -> None:
    course = Course().run(batch_seconds=0.002, passes=200)
    assert all(PHASES in phases for phases in course.looked_at.values())
    later = [phases for number, phases in course.looked_at.items() if number > 0]
    assert later[0] == [PHASES], "looking has taken more than its share, and looks once"


def test_it_has_its_first_batch_too_where_there_is_time() -> None:
    course = Course().run(batch_seconds=0.1, passes=30, seconds=1000.0)
    later = [phases for number, phases in course.looked_at.items() if number >= 10]
    assert all({0, PHASES} <= set(phases) for phases in later)


def test_it_has_its_first_batch_always_where_workers_end_with_it() -> None:
    course = Course().run(batch_seconds=0.002, passes=30, workers_end=True)
    assert all({0, PHASES} <= set(phases) for phases in course.looked_at.values())


def test_workers_that_end_with_the_pass_are_seen_at_every_phase_of_some_pass() -> None:
    course = Course().run(batch_seconds=0.002, passes=FEWEST, workers_end=True)
    seen = {phase for phases in course.looked_at.values() for phase in phases}
    assert seen == set(range(PHASES + 1))


def test_long_passes_are_each_looked_at_in_every_phase() -> None:
    course = Course().run(batch_seconds=0.2, batches=60, passes=30, seconds=1000.0)
    later = [phases for number, phases in course.looked_at.items() if number > 0]
    assert list(course.looked_at) == list(range(30))
    assert all(set(range(PHASES + 1)) <= set(phases) for phases in later)
    assert course.share <= DUTY


@pytest.mark.parametrize("known_length", [True, False])
def test_a_pass_longer_than_the_watch_has_looks_all_along(known_length: bool) -> None:
    course = Course().run(batch_seconds=0.1, batches=10**4, passes=1, known_length=known_length)
    (phases,) = course.looked_at.values()
    assert len(phases) >= 24, "twelve stretches with two looks each"
    assert course.share <= DUTY


def test_places_run_from_the_first_batch_to_the_last() -> None:
    assert [place_of(batch, 10) for batch in range(1, 11)] == list(range(10))
    assert place_of(1, None) == 0
    assert place_of(2, None) is None


def test_of_many_lives_ever_finer_places_are_seen() -> None:
    course = Course().run(
        batch_seconds=0.002, batches=400, passes=300, workers_end=True, seconds=1000.0
    )
    later = course.places[: len(course.places) // 2]
    parts = {int(place / PHASES * 36) for place in later if place < PHASES - 0.5}
    assert parts == set(range(34))


def test_looks_rest_until_they_have_taken_their_share_at_most() -> None:
    course = Course().run(batch_seconds=0.002, passes=20)
    before = course.rhythm.spent
    assert course.share > DUTY, "the first passes are looked at one by one"
    course.rhythm.rest()
    passes = 0
    while not course.rhythm.due(40, 40, is_end=True):
        course.rhythm.begins(workers_end=False)
        assert not course.rhythm.due(1, 40, is_end=False)
        course.now += 0.08
        passes += 1
    assert passes > 1
    assert course.rhythm.spent == before
    assert course.now >= before / DUTY
    assert course.now - 0.08 < before / DUTY
