"""How figures are written for people, at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (1.234, "1.23 s"),
        (0.9996, "1.00 s"),
        (0.9994, "999 ms"),
        (0.0456, "45.6 ms"),
        (0.00099951, "1.00 ms"),
        (0.00012, "120 µs"),
        (2.5e-9, "0.00250 µs"),
        (59.96, "60.0 s"),
        (99.96, "100 s"),
        (123.4, "123 s"),
        (12345.6, "12,346 s"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59.5, "1 min"),
        (60, "1 min"),
        (130, "2 min 10 s"),
        (3599.5, "1 h"),
        (3900, "1 h 5 min"),
        (3601, "1 h 1 min"),
        (7200, "2 h"),
        (3_600_000, "1,000 h"),
    ],
)
def test_duration(value: float, text: str) -> None:
    assert units.duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1,023 B"),
        (12.5, "12.5 B"),
        (1024, "1.00 KiB"),
        (39_424, "38.5 KiB"),
        (1023 * 1024, "1,023 KiB"),
        (1024**2, "1.00 MiB"),
        (600 * 1024**2, "600 MiB"),
        (1.5 * 1024**3, "1.50 GiB"),
        (2 * 1024**4, "2.00 TiB"),
        (4096 * 1024**4, "4,096 TiB"),
    ],
)
def test_size(value: float, text: str) -> None:
    assert units.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1234, "0.123"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (123.4, "123"),
        (999.6, "1,000"),
        (12345.4, "12,345"),
        (1_234_567, "1,234,567"),
    ],
)
def test_rate(value: float, text: str) -> None:
    assert units.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.004, "0.4 %"),
        (0.0096, "1 %"),
        (0.123, "12 %"),
        (1, "100 %"),
        (12.5, "1,250 %"),
    ],
)
def test_share(value: float, text: str) -> None:
    assert units.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00×"),
        (0.056, "0.06×"),
        (1, "1.00×"),
        (9.994, "9.99×"),
        (9.996, "10.0×"),
        (123.4, "123×"),
    ],
)
def test_ratio(value: float, text: str) -> None:
    assert units.ratio(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (4, "4"), (60000, "60,000"), (2.5, "2.50"), (1234.6, "1,235")]
)
def test_number(value: float, text: str) -> None:
    assert units.number(value) == text


@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "write",
    [
        units.seconds,
        units.duration,
        units.size,
        units.rate,
        units.share,
        units.ratio,
        units.number,
    ],
)
def test_a_figure_that_cannot_have_been_measured_is_refused(
    write: Callable[[float], str], value: float
) -> None:
    with pytest.raises(ValueError, match="0 or more and finite"):
        write(value)


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_seconds_lose_less_than_half_a_per_cent(value: float) -> None:
    figure, unit = units.seconds(value).split()
    read = float(figure.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
    assert read == pytest.approx(value, rel=0.0051)


@given(st.integers(min_value=1, max_value=2**60))
def test_sizes_lose_less_than_half_a_per_cent(value: int) -> None:
    figure, unit = units.size(value).split()
    step = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}[unit]
    assert float(figure.replace(",", "")) * step == pytest.approx(value, rel=0.0051)


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_rates_lose_less_than_half_a_per_cent(value: float) -> None:
    assert float(units.rate(value).replace(",", "")) == pytest.approx(value, rel=0.0051)
