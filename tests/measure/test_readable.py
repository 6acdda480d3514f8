from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from feedrate.measure.readable import readable_bytes

TABLE: list[Any] = []


class Rows:
    def __init__(self, rows: Any) -> None:
        self.rows = rows


class Shared:
    rows: ClassVar[list[Any]] = [{"id": number} for number in range(2000)]


def records(count: int) -> list[Any]:
    return [{"id": number, "name": f"{number:08d}.jpg"} for number in range(count)]


def test_objects_of_the_dataset_count_and_the_bytes_of_arrays_do_not() -> None:
    few = readable_bytes(Rows(np.zeros(10_000_000)))
    many = readable_bytes(Rows(records(50_000)))
    assert few is not None
    assert many is not None
    assert many - few > 50_000 * 200
    assert few < 100_000


def test_what_its_class_and_its_module_hold_counts_too() -> None:
    little = readable_bytes(Rows([]))
    of_class = readable_bytes(Shared())
    assert little is not None
    assert of_class is not None
    assert of_class > little + 2000 * 200
    TABLE.extend(records(5000))
    try:
        of_module = readable_bytes(Rows([]))
    finally:
        TABLE.clear()
    assert of_module is not None
    assert of_module > little + 5000 * 200


def test_what_is_too_much_to_be_counted_is_not_known(monkeypatch: Any) -> None:
    monkeypatch.setattr("feedrate.measure.readable._SECONDS", -1.0)
    assert readable_bytes(Rows([[index] for index in range(9000)])) is None
