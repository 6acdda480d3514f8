"""Tables whose rows may end in a sentence and whose columns may be left out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from feedrate.report.grid import Column, Grid, Row


def printed(renderable: RenderableType, width: int) -> list[str]:
    lines = io.StringIO()
    Console(file=lines, width=width, color_system=None, force_terminal=False).print(renderable)
    return lines.getvalue().splitlines()


COLUMNS = (
    Column(("", "workers")),
    Column(("cold", "items/s"), 1, "cold rate"),
    Column(("", "memory"), 2, "memory"),
)


def test_figures_stand_below_their_heads_at_the_right() -> None:
    grid = Grid(COLUMNS, (Row(("0", "1,200", "3 MiB")), Row(("16", "9", "12 MiB"))), lead=1)
    assert printed(grid, 40) == [
        "            cold",
        "workers  items/s  memory",
        "      0    1,200   3 MiB",
        "     16        9  12 MiB",
    ]


def test_a_row_without_figures_says_why_in_their_place() -> None:
    why = "failed: memory ran out; use fewer workers or a smaller prefetch_factor."
    grid = Grid(COLUMNS, (Row(("0", "1,200", "3 MiB")), Row(("8",), note=why)), lead=1)
    assert printed(grid, 45)[3:] == [
        "      8  failed: memory ran out; use fewer",
        "         workers or a smaller",
        "         prefetch_factor.",
    ]


def test_a_row_with_figures_has_its_sentence_below() -> None:
    grid = Grid(COLUMNS, (Row(("8", "1", "2 MiB"), note="1 of 3 runs failed."),), lead=1)
    assert printed(grid, 40)[2:] == [
        "      8        1   2 MiB",
        "         1 of 3 runs failed.",
    ]


def test_gaps_shrink_before_a_column_is_left_out() -> None:
    grid = Grid(COLUMNS, (Row(("0", "1,200", "3 MiB")),), lead=1)
    assert printed(grid, 22)[1] == "workers items/s memory"


def test_the_least_important_column_goes_first_and_is_named() -> None:
    grid = Grid(COLUMNS, (Row(("0", "1,200", "3 MiB")),), lead=1)
    lines = printed(grid, 21)
    assert lines[0] == "workers  memory"
    assert " ".join(lines[2:]) == "Not shown in 21 columns: cold rate."


def test_columns_that_are_needed_stay_in_any_width() -> None:
    grid = Grid(COLUMNS, (Row(("0", "1,200", "3 MiB")),), lead=1)
    assert printed(grid, 8)[0] == "workers"


def test_a_head_without_words_takes_no_line() -> None:
    grid = Grid((Column(("", "workers")),), (Row(("0",)),), lead=1)
    assert printed(grid, 20) == ["workers", "      0"]


def test_a_row_with_a_wrong_number_of_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells, not 3"):
        Grid(COLUMNS, (Row(("0", "1")),), lead=1)
