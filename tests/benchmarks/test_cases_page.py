"""The page of cases: rows that are measured again replace their own, and the others stay."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture
def cases() -> Any:
    return importlib.import_module("cases")


def test_a_table_is_completed_piece_by_piece(cases: Any) -> None:
    def row(name: str, *, right: bool = True, remark: str = "") -> Any:
        return cases.Row(name, "speed.collate", ("speed.collate",), right, 1.25, remark, 0.5)

    first = cases._page([row("02-b", right=False, remark="a | b"), row("03-c")], "", 30.0)
    assert "1 of 2 cases are right." in first
    assert "a / b" in first
    page = cases._page([row("01-a"), row("02-b")], first, 30.0)
    lines = [line for line in page.splitlines() if line.startswith("| 0")]
    assert [line[2:6] for line in lines] == ["01-a", "02-b", "03-c"]
    assert "| 03-c | speed.collate | speed.collate | right | 1.2 | 50% |  |" in lines
    assert page.endswith("\n3 of 3 cases are right.\n")
