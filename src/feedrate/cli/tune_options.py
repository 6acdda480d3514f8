"""Sizes, times and lists as people write them on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from feedrate.errors import UsageError

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|sec|m|min|h|)", re.IGNORECASE)


def parse_size(text: str, option: str) -> int:
    """Return bytes: "4G", "4GiB" and "4096M" are the same; a number alone is bytes.

    Raises:
        UsageError: it is no size, or 0.
    """
    found = _SIZE.fullmatch(text.strip())
    value = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if value < 1:
        raise UsageError(f"{option} takes a size such as 4G or 512M, and not {text!r}")
    return value


def parse_seconds(text: str, option: str) -> float:
    """Return seconds: "90", "90s" and "1.5m" are the same.

    Raises:
        UsageError: it is no time, or shorter than a second.
    """
    found = _TIME.fullmatch(text.strip())
    value = float(found[1]) * _SECONDS[found[2].lower()] if found else 0.0
    if value < 1:
        raise UsageError(f"{option} takes a time such as 60s or 5m, 1 s or more, and not {text!r}")
    return value


def parse_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each name once: an option that is repeated, its names separated by commas."""
    names = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))
