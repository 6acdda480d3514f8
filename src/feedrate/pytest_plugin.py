"""The pytest fixture ``feedrate_leaks``: a test that fails when the memory of a loop grows.

def test_loader(feedrate_leaks):
    feedrate_leaks(make_loader)

pytest loads this with every test run, so nothing is imported until a test asks for the fixture.
Turn it off with ``-p no:feedrate``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from feedrate.memory_records import Cause
    from feedrate.records import Finding


class Watched(Protocol):
    """A watched run: what `feedrate.check_leaks` returns."""

    @property
    def leaks(self) -> Sequence[Finding]:
        """The findings that say that something grows."""

    def table(self) -> str:
        """Return the whole report as text."""


class FeedrateLeaks:
    """Watches a loop's memory, and fails the test where it grows.

    Args:
        check: takes the place of `feedrate.check_leaks`.
    """

    def __init__(self, check: Callable[..., Any] | None = None) -> None:
        self._check = check

    def __call__(self, target: Any, step: Any = None, **options: Any) -> Any:
        """Watch a target as `feedrate.check_leaks` does, with the same options.

        Returns:
            The suite, where nothing grows as far as could be told: ``table()`` shows it.

        Fails the test otherwise, with the sentences of the verdict, the causes and the remedies.
        """
        __tracebackhide__ = True
        check = self._check or import_module("feedrate").check_leaks
        suite = check(target, step, **options)
        if suite.leaks:
            pytest.fail(describe(suite), pytrace=False)
        return suite


@pytest.fixture
def feedrate_leaks() -> FeedrateLeaks:
    """Watch a loader's loop and fail the test when its memory grows: feedrate_leaks(make_loader).

    Takes what feedrate.check_leaks takes: a loader, a dataset, or a function that returns one or
    (loader, step); a step; epochs, seconds, max_batches and so on.
    """
    return FeedrateLeaks()


def describe(suite: Watched) -> str:
    """Return the findings of a watched run that say that something grows, with their causes."""
    watch = getattr(suite, "watch", None)
    causes = watch.objects if watch is not None else ()
    lines = [f"{finding.title} [{finding.code}] {finding.remedy}" for finding in suite.leaks]
    return "\n".join([*lines, *map(_cause, causes)])


def _cause(cause: Cause) -> str:
    place = f"{cause.file}:{cause.line}" if cause.file is not None else "an unknown line"
    held = f", held by {' → '.join(cause.held_by)}" if cause.held_by else ""
    return f"  {cause.process}: {cause.type_name or 'memory'} made at {place}{held}"
