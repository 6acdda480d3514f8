"""Versions of packages: their numbers, and whether they are what another package asks for."""

from __future__ import annotations

import re
from collections.abc import Callable

Release = tuple[int, ...]

_WISH = re.compile(r"(==|>=|<=|>|<)\s*(\d+(?:\.\d+)*)$")
_COMPARE: dict[str, Callable[[Release, Release], bool]] = {
    "==": lambda one, other: one == other,
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
}


def release(version: str) -> Release:
    """Return the numbers of a version: (2, 4, 1) for "2.4.1+cu121"; zeros at its end do not count.

    Of what is no version, nothing.
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found is not None else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def meets(version: str, wishes: str) -> bool | None:
    """Tell whether a version is what a package asks for, as in "==2.4.0" or ">=2.4,<3".

    ``None`` where that cannot be told: a wish of another form, or a version that is not final.
    """
    found = [_WISH.match(wish.strip()) for wish in wishes.split(",")]
    if re.fullmatch(r"\d+(?:\.\d+)*(?:\+.*)?", version) is None or None in found:
        return None
    own = release(version)
    return all(_COMPARE[wish[1]](own, release(wish[2])) for wish in found if wish is not None)
