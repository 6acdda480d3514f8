"""Records that hold themselves, or are too deep to look into."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from feedrate.remedies.shared_list import SharedList


def test_a_record_that_holds_itself_comes_back() -> None:
    record: list[Any] = [1]
    record.append(record)
    table: dict[str, Any] = {}
    table["self"] = table
    back, table_back = SharedList([record, table])
    assert back[0] == 1
    assert back[1] is back
    assert table_back["self"] is table_back


def test_a_record_that_is_too_deep_is_packed_or_named() -> None:
    record: list[Any] = []
    for _ in range(100 * sys.getrecursionlimit()):
        record = [record]
    # How deep a pickle can go depends on the version of Python: not so deep, in any.
    with pytest.raises(TypeError, match="item 1 of type list cannot be packed"):
        SharedList([0, record])
