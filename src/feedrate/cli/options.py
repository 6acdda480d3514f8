"""Options that take several values, as text: ``0,1,2,4`` or ``off,on``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from feedrate.errors import UsageError
from feedrate.settings import LOADER_KINDS, START_METHODS, LoaderKind, StartMethod

T = TypeVar("T")

_SWITCHES = {"off": False, "on": True}


def parse_ints(text: str, option: str, least: int = 0) -> tuple[int, ...]:
    """Return the whole numbers in ``text``, each once, in the order given.

    Raises:
        UsageError: there is none, or something else than a whole number of ``least`` or more.
    """
    numbers = []
    for word in _words(text, option, "whole numbers such as 0,1,2,4"):
        # Nobody means more than nine digits, and Python refuses to read thousands of them.
        if not (word.isascii() and word.isdigit() and len(word) <= 9) or int(word) < least:
            raise UsageError(
                f"{option} takes whole numbers of {least} or more, separated by commas, "
                f"and {word!r} is none"
            )
        numbers.append(int(word))
    return tuple(dict.fromkeys(numbers))


def parse_switches(text: str, option: str) -> tuple[bool, ...]:
    """Return false for each ``off`` and true for each ``on`` in ``text``, each once.

    Raises:
        UsageError: there is none, or another word.
    """
    return _choices(text, option, _SWITCHES)


def parse_start_methods(
    text: str, option: str, available: Sequence[str] = START_METHODS
) -> tuple[StartMethod, ...]:
    """Return the start methods in ``text``, each once; ``available`` are those of the platform.

    Raises:
        UsageError: there is none, or another word, or one that the platform does not have.
    """
    known = {name: cast(StartMethod, name) for name in START_METHODS if name in available}
    return _choices(text, option, known)


def parse_loaders(text: str, option: str) -> tuple[LoaderKind, ...]:
    """Return whose loaders ``text`` names, each once, in the order given.

    Raises:
        UsageError: there is none, or another word.
    """
    return _choices(text, option, {name: cast(LoaderKind, name) for name in LOADER_KINDS})


def given(
    text: str | None, parse: Callable[..., tuple[T, ...]], option: str, **limits: Any
) -> tuple[T, ...]:
    """Return what ``parse`` makes of an option, and nothing where it was not given."""
    return () if text is None else parse(text, option, **limits)


def _choices(text: str, option: str, known: Mapping[str, T]) -> tuple[T, ...]:
    names = ", ".join(known)
    chosen: dict[T, None] = {}
    for word in _words(text, option, names):
        if word not in known:
            raise UsageError(f"{option} takes {names}, separated by commas, and not {word!r}")
        chosen[known[word]] = None
    return tuple(chosen)


def _words(text: str, option: str, allowed: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise UsageError(f"{option} is empty; give {allowed}")
    if not all(words):
        raise UsageError(f"{option} {text!r} has a comma too many; give {allowed}")
    return words
