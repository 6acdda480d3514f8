"""Sentences with a sign in front."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from feedrate.report.hanging import Hanging, wrapped


def printed(hanging: Hanging, width: int, *, colours: bool = False) -> str:
    lines = io.StringIO()
    Console(
        file=lines,
        width=width,
        force_terminal=colours,
        color_system="standard" if colours else None,
        _environ={},
    ).print(hanging)
    return lines.getvalue()


def test_later_lines_stand_below_the_text() -> None:
    text = "Kept workers save about 200 ms an epoch."
    assert printed(Hanging("  → ", text), 30) == (
        "  → Kept workers save about\n    200 ms an epoch.\n"
    )


def test_a_figure_and_its_unit_stay_together() -> None:
    assert wrapped("it takes all of 12.5 ms here", 20) == ["it takes all of", "12.5 ms here"]
    assert wrapped("the tolerance is now 3 %.", 22) == ["the tolerance is now", "3 %."]
    assert wrapped("with all the rest 4 something", 20) == ["with all the rest 4", "something"]


def test_the_strong_part_is_bold_and_the_rest_is_not() -> None:
    text = printed(Hanging("", "2 workers are enough: 800", strong="2 workers are enough"), 60,
                   colours=True)  # fmt: skip
    assert text == "\x1b[1m2 workers are enough\x1b[0m: 800\n"


def test_the_strong_part_may_reach_over_lines() -> None:
    strong = "2 workers are surely enough"
    lines = printed(Hanging("", f"{strong}: 800", strong=strong), 22, colours=True).splitlines()
    assert lines == ["\x1b[1m2 workers are surely\x1b[0m", "\x1b[1menough\x1b[0m: 800"]


def test_an_empty_text_still_has_its_lead() -> None:
    assert printed(Hanging("host  ", ""), 30) == "host  \n"


@given(st.lists(st.text("abc0123456789%ms", min_size=1, max_size=12), max_size=30))
def test_no_word_is_lost_and_no_line_is_too_wide(words: list[str]) -> None:
    lines = wrapped(" ".join(words), 25)
    assert " ".join(lines).split() == words
    assert all(len(line) <= 25 for line in lines)
