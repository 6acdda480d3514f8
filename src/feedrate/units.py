"""How people read a figure: seconds, sizes, rates, shares and ratios as short text.

Three significant digits everywhere, and no digit that was not measured: whole numbers stay whole,
with separators between thousands. Every function refuses a figure that cannot have been measured
(negative, infinite, not a number), so that a mistake upstream is an error and not a strange word
in a table. `quantity` is the one that takes negative values: a difference may go either way.
"""

from __future__ import annotations

import math

_SECOND_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SIZE_STEPS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def seconds(value: float) -> str:
    """Return a time, as "1.23 s", "45.6 ms" or "120 µs".

    Raises:
        ValueError: the time is negative, infinite or not a number.
    """
    _check(value, "a time")
    if value == 0:
        return "0 s"
    for step, unit in _SECOND_STEPS:
        # 0.9996 s is "1.00 s": what rounds up to the next unit is written in it
        if value >= 0.9995 * step or unit == "µs":
            return f"{_three_digits(value / step)} {unit}"
    raise AssertionError("unreachable: microseconds take what is left")


def duration(value: float) -> str:
    """Return how long something takes or will take, in whole seconds: "2 min 10 s", "1 h 5 min".

    Rounded up, because it tells people how long to wait.

    Raises:
        ValueError: the time is negative, infinite or not a number.
    """
    _check(value, "a time")
    whole = math.ceil(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(math.ceil(whole / 60), 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def size(value: float) -> str:
    """Return bytes, as "512 B", "38.5 KiB", "12.3 MiB", "1.23 GiB".

    Raises:
        ValueError: the size is negative, infinite or not a number.
    """
    _check(value, "a size")
    for step, unit in _SIZE_STEPS:
        if value >= step:
            return f"{_three_digits(value / step)} {unit}"
    return f"{number(value)} B"


def rate(value: float) -> str:
    """Return items per second without the unit: "12,345", and three digits below 1,000.

    Raises:
        ValueError: the rate is negative, infinite or not a number.
    """
    _check(value, "a rate")
    return _three_digits(value)


def share(value: float) -> str:
    """Return a share of 1 in per cent: "12 %"; below 1 % with one more digit, "0.4 %".

    Raises:
        ValueError: the share is negative, infinite or not a number.
    """
    _check(value, "a share")
    percent = 100 * value
    if percent == 0:
        return "0 %"
    if percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %" if percent < 0.95 else f"{percent:,.0f} %"


def ratio(value: float) -> str:
    """Return how many times: "1.23×", "12.3×".

    Raises:
        ValueError: the ratio is negative, infinite or not a number.
    """
    _check(value, "a ratio")
    # two digits after the point even below 1, where three significant ones would be noise
    return f"{value:.2f}×" if value < 9.995 else f"{_three_digits(value)}×"


def number(value: float) -> str:
    """Return a plain number: whole ones with separators, others with three digits.

    Raises:
        ValueError: the number is negative, infinite or not a number.
    """
    _check(value, "a number")
    return f"{value:,.0f}" if float(value).is_integer() else _three_digits(value)


def _three_digits(value: float) -> str:
    if value == 0:
        return "0"
    # the exponent after rounding: 9.996 has to count as 10.0
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def _check(value: float, what: str) -> None:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what} must be 0 or more and finite, not {value}")
