"""What a pass tells of what it found, by what the watch had seen."""

from __future__ import annotations

import pytest

from feedrate.measure.causes.candidates import Candidate, Evaluation

GROWN = 12_000


@pytest.mark.parametrize(
    ("is_filled", "finds", "whole"),
    [(False, True, 4_096_000), (True, True, GROWN), (True, False, 4_096_000)],
)
def test_what_fills_up_in_the_pass_is_held_against_what_grew_in_it(
    is_filled: bool, finds: bool, whole: int
) -> None:
    """The watch's rate holds as long as it goes on growing."""
    found = [Candidate(place=("data.py", 3), size=10.0, count=1.0)] if finds else []
    evaluation = Evaluation(
        candidates=found,
        span=1000,
        grown=GROWN,
        collected=0,
        trimmed=0,
        sights=8,
        is_filled=is_filled,
    )
    told = evaluation.inspection(
        "worker 0",
        epoch_items=100,
        expected=4096.0,
        items=1000,
        seconds=1.0,
        is_complete=True,
    )
    assert told.growth.grown == whole
    assert told.growth.traced == (10_000 if finds else 0)


@pytest.mark.parametrize(("expected", "whole"), [(30_000.0, 30_000_000), (40_000.0, 0)])
def test_what_does_not_grow_again_is_not_put_down_to_c(expected: float, whole: int) -> None:
    evaluation = Evaluation(
        candidates=[], span=1000, grown=GROWN, collected=0, trimmed=0, sights=8, is_filled=True
    )
    told = evaluation.inspection(
        "main", epoch_items=100, expected=expected, items=1000, seconds=1.0, is_complete=True
    )
    assert told.growth.grown == whole
