"""The loaders that a script iterates: which of them are one, and which of them it trains from."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from feedrate.measure.places import Place
from feedrate.records import LoaderFacts, LoaderUse

_ABOUT_AS_MANY = 0.9
"""Loaders that are iterated side by side get the same optimizer steps, but for some at the ends."""


@dataclass(slots=True, eq=False)
class Use:
    """One loader, or several made one after another at the same place; its counts grow."""

    number: int
    place: Place
    facts: LoaderFacts | None = None
    epochs: int = 0
    complete_epochs: int = 0
    batches: int = 0
    optimizer_steps: int = 0
    wait_seconds: float = 0.0
    epoch_batches: int | None = None
    ended_batches: int | None = None
    most_batches: int = 0
    startup_seconds: float | None = None
    asked: int = 0
    seen_at: int = 0
    dataset: weakref.ref[Any] | None = None

    def record(self) -> LoaderUse | None:
        """Return what is to be kept of it; ``None`` where nothing of it could be read."""
        if self.facts is None:
            return None
        return LoaderUse(
            number=self.number,
            file=self.place.file,
            line=self.place.line,
            facts=self.facts,
            epochs=self.epochs,
            complete_epochs=self.complete_epochs,
            batches=self.batches,
            optimizer_steps=self.optimizer_steps,
            ended_batches=self.ended_batches,
            most_batches=self.most_batches,
        )


class Iteration:
    """One pass over a loader, from ``iter()`` on. Its iterator holds it, so it lives as long."""

    def __init__(self, use: Use, loader: Any) -> None:
        self.use = use
        self.level = int(getattr(loader, "num_workers", 0))
        self.prefetch: int | None = getattr(loader, "prefetch_factor", None) if self.level else None
        self.count: Callable[[Any], int] | None = None
        self.loader = weakref.ref(loader)
        self.given_at: float | None = None
        self.batches = 0
        self.optimizer_steps = 0
        self.has_ended = False
        self.is_complete = False
        self.begun_then = 0
        self.other_was_begun = False
        self.begin_seconds = 0.0
        self.order = 0
        self.is_endless = False


class Uses:
    """All loaders of a script, numbered from 0 in the order in which they are first iterated."""

    def __init__(self) -> None:
        self.all: list[Use] = []
        self._count = 0
        self._made: dict[int, tuple[weakref.ref[Any], Place, int]] = {}
        self._known: dict[int, tuple[weakref.ref[Any], Use]] = {}

    def made(self, loader: Any, place: Place) -> None:
        """Take note of a loader that was just made; of calls by its base classes the first counts.

        One that a library made of the user's loader is at the place of that one, which has the
        same sampler or at least the same dataset.
        """
        if self._place(loader) is not None:
            return
        if place.file is None:
            origin = self._origin(loader)
            if origin is not None:
                place = Place(origin.file, origin.line, place.path)
        self._count += 1
        self._made[id(loader)] = (self._reference(loader, self._made), place, self._count)

    def of(self, loader: Any) -> tuple[Use, bool]:
        """Return the use that a loader belongs to, and whether it is seen for the first time."""
        known = self._known.get(id(loader))
        if known is not None and known[0]() is loader:
            return known[1], False
        use = self._earlier(loader)
        if use is None:
            use = Use(len(self.all), self._place(loader) or Place())
            self.all.append(use)
        self._count += 1
        use.seen_at = self._count
        use.dataset = None
        with contextlib.suppress(TypeError):  # a list has no weak references
            use.dataset = weakref.ref(getattr(loader, "dataset", None))
        self._known[id(loader)] = (self._reference(loader, self._known), use)
        return use, True

    def _earlier(self, loader: Any) -> Use | None:
        """Return the use of loaders made at the same place, if this one was made anew.

        It was if it was made after an earlier one was iterated. A training and a test loader that
        one line makes are both made before. Of several the one with the same dataset.
        """
        reference, place, made_at = self._made.get(id(loader), (None, Place(), 0))
        if reference is None or reference() is not loader:
            return None
        free = [use for use in self.all if use.place.path == place.path and use.seen_at < made_at]
        dataset = getattr(loader, "dataset", None)
        alike = (use for use in free if use.dataset is not None and use.dataset() is dataset)
        return next(alike, next(iter(free), None))

    def _origin(self, loader: Any) -> Place | None:
        found: Place | None = None
        for reference, place, _ in self._made.values():
            other = reference()
            if other is None or place.file is None or other is loader:
                continue
            for name in ("batch_sampler", "sampler", "dataset"):
                mine = getattr(loader, name, None)
                if mine is not None and mine is getattr(other, name, None):
                    if name != "dataset":
                        return place
                    found = place
        return found

    def _place(self, loader: Any) -> Place | None:
        reference, place, _ = self._made.get(id(loader), (None, None, 0))
        return place if reference is not None and reference() is loader else None

    @staticmethod
    def _reference(loader: Any, table: dict[int, Any]) -> weakref.ref[Any]:
        key = id(loader)

        def forget(reference: weakref.ref[Any]) -> None:
            if key in table and table[key][0] is reference:
                del table[key]

        return weakref.ref(loader, forget)


def pick_trained(uses: Sequence[Use]) -> Use | None:
    """Return the loader between whose batches an optimizer steps; ``None`` where none does.

    Of several that have about as many steps, the one that the loop waits for most.
    """
    most = max((use.optimizer_steps for use in uses), default=0)
    if most == 0:
        return None
    leading = [use for use in uses if use.optimizer_steps >= _ABOUT_AS_MANY * most]
    return max(leading, key=lambda use: use.wait_seconds)


def pick_most_used(uses: Sequence[Use]) -> Use | None:
    """Return the loader that delivered most batches; ``None`` where none did."""
    used = [use for use in uses if use.batches]
    return max(used, key=lambda use: use.batches, default=None)
