"""Objects of wanted lines, found among many within a bounded time; what is set aside meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from feedrate.analysis.causes import Place
from feedrate.measure.causes import tracing
from feedrate.measure.causes.sampling import by_age, sample_lines

LINE: Place = ("data.py", 3)


class Made:
    """An object that a wanted line has made."""


class Steps:
    """A clock that takes a step whenever it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def place_of(value: object) -> Place | None:
    return LINE if isinstance(value, Made) else None


def sampled(new: list[object], clock: Callable[[], float]) -> tuple[int, float]:
    samples, walked = sample_lines(place_of, {LINE: len(new)}, new, [], 10.0, clock)
    return samples[LINE].counts[Made], walked


def test_all_new_objects_are_looked_at_where_there_is_time() -> None:
    assert sampled([Made() for _ in range(5000)], Steps(0.0)) == (5000, 1.0)


def test_where_there_are_too_many_it_is_told_which_share_was() -> None:
    # chunks of 500, and half of the ten seconds for these
    count, walked = sampled([Made() for _ in range(20_000)], Steps(1.0))
    assert 500 <= count <= 5000
    assert walked == count / 20_000


def test_a_share_of_them_is_of_all_ages() -> None:
    """So that how many there are of a kind in all can be told from it."""
    new: list[object] = [object() for _ in range(10_000)] + [Made() for _ in range(10_000)]
    count, walked = sampled(new, Steps(1.0))
    assert count == pytest.approx(walked * 10_000, rel=0.5)


def test_all_objects_by_age_do_not_hold_themselves() -> None:
    """A list that is in itself outlives its last user, and holds every object there is."""
    gc.collect()
    gc.disable()
    try:
        marked = Made()
        found = by_age()
        identities = set(map(id, found))
        assert id(marked) in identities
        assert id(found) not in identities
        del found
        assert not [each for each in gc.get_referrers(marked) if isinstance(each, list)]
    finally:
        gc.enable()


def test_nothing_new_is_all_of_it() -> None:
    assert sampled([], Steps(0.0)) == (0, 1.0)


@pytest.fixture
def old() -> list[object]:
    return [Made() for _ in range(10)]


def alive() -> int:
    # by its type: some objects warn when they are asked for their class
    return sum(type(each) is Made for each in gc.get_objects())


def test_objects_that_were_there_before_are_set_aside_and_taken_back(old: list[object]) -> None:
    assert alive() == len(old)
    assert tracing.set_aside()
    try:
        new = Made()
        assert alive() == 1
    finally:
        tracing.take_back()
    assert alive() == len(old) + 1
    del new


def test_what_python_sets_aside_by_itself_is_not_the_programs(
    old: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 does so with its immortal objects, at each collection."""
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 375)
    assert tracing.set_aside()
    tracing.take_back()
    assert alive() == len(old)


def test_what_the_program_set_aside_itself_stays_so(old: list[object]) -> None:
    gc.freeze()
    try:
        assert not tracing.set_aside()
        tracing.take_back()
        assert gc.get_freeze_count() >= len(old)
    finally:
        gc.unfreeze()
