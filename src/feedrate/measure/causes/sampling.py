"""Objects that were allocated at given lines, found among all that live."""

from __future__ import annotations

import gc
import itertools
import math
import sys
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from feedrate.analysis.causes import Place
from feedrate.measure.causes.naming import is_lru_cache, type_name
from feedrate.measure.causes.tensors import is_tensor, storage_of

_CHUNK = 500
_KEPT = 10
_ENOUGH = 0.3
"""An object takes up to three blocks: an array its head, its data and its shape."""
_WEIGHED = 50
"""So many objects of a type are weighed."""
_DEEP = 3
"""How deep tuples are looked into that the collector does not track: they hold no containers."""


@dataclass(slots=True)
class Sample:
    """What was found of one line: how many of which type, and some of those that take most.

    ``above`` has the tuple around an object where the collector does not track it.
    """

    counts: Counter[type] = field(default_factory=Counter)
    weighed: Counter[type] = field(default_factory=Counter)
    kept: dict[type, list[object]] = field(default_factory=dict)
    above: dict[int, object] = field(default_factory=dict)

    def add(self, value: object, above: object | None) -> None:
        """Take one object."""
        cls = type(value)
        self.counts[cls] += 1
        if self.counts[cls] <= _WEIGHED:
            self.weighed[cls] += size_of(value)
        kept = self.kept.setdefault(cls, [])
        if len(kept) < _KEPT:
            kept.append(value)
            if above is not None:
                self.above[id(value)] = above

    def leading(self) -> type | None:
        """Return the type that takes most, ``None`` where nothing was found."""
        return max(self.counts, key=self._size, default=None)

    def _size(self, cls: type) -> float:
        """Return what all of a type take, if the others are as the first of them."""
        return self.counts[cls] * self.weighed[cls] / min(self.counts[cls], _WEIGHED)

    def named(self) -> str | None:
        """Return what the objects are."""
        cls = self.leading()
        return type_name(self.kept[cls][0]) if cls is not None else None

    def objects(self) -> list[object]:
        """Return the kept objects of the leading type, those first that live longest."""
        cls = self.leading()
        return self.kept[cls] if cls is not None else []

    @property
    def count(self) -> int:
        """How many objects of the leading type there are."""
        cls = self.leading()
        return self.counts[cls] if cls is not None else 0


def sample_lines(
    place_of: Callable[[object], Place | None],
    wanted: Mapping[Place, int],
    new: Sequence[Any],
    roots: Iterable[object],
    seconds: float,
    clock: Callable[[], float] = time.thread_time,
) -> tuple[dict[Place, Sample], float]:
    """Return samples of the objects that were allocated at the wanted lines.

    And the share of the ``new`` objects that was looked at: less than 1 where the time was too
    short for so many.

    Those are looked at that the collector tracks and that may be ``new``. What it does not track,
    as bytes or an array, is found in what holds it: in those, in what can be reached from
    ``roots``, and in all the rest. It ends when there are objects for most of the memory blocks
    that ``wanted`` has for each line, or after ``seconds`` of this thread's CPU time, of which
    each of these has its share.
    """
    samples = {place: Sample() for place in wanted}
    end = clock() + seconds
    seen: set[int] = set()

    def take(value: object, above: object | None = None) -> bool:
        place = place_of(value)
        if place in samples and id(value) not in seen:
            seen.add(id(value))
            samples[place].add(value, above)
        return place is not None

    def is_enough() -> bool:
        found = ((sum(samples[place].counts.values()), count) for place, count in wanted.items())
        return all(objects >= _ENOUGH * blocks for objects, blocks in found)

    def take_what_holds(holders: Iterable[Any], until: float) -> None:
        for chunk in _chunks(holders):
            if clock() > until or is_enough():
                return
            for each in gc.get_referents(*chunk):
                _take_untracked(each, take, None, 0)

    def half() -> float:
        return clock() + max(0.0, end - clock()) / 2

    traced: list[Any] = []
    walked, until = 0, half()
    for chunk in _spread(new):
        if clock() > until:
            break
        walked += len(chunk)
        traced += [each for each in chunk if take(each)]
    take_what_holds(traced, end)
    until = half()
    take_what_holds(_reachable(roots, lambda: clock() > until), until)
    if not is_enough() and clock() < end:
        take_what_holds(by_age(), end)
    return samples, walked / len(new) if new else 1.0


def size_of(value: object) -> int:
    """Return the bytes of an object with its array or storage, without what it refers to."""
    try:
        size = sys.getsizeof(value)
    except Exception:
        return 0
    if is_tensor(value):
        storage = storage_of(value)
        return size + (storage[1] if storage is not None else 0)
    return size


def _take_untracked(
    value: object,
    take: Callable[[object, object | None], bool],
    above: object | None,
    depth: int,
) -> None:
    if value is None or gc.is_tracked(value):
        return
    take(value, above)
    if type(value) is tuple and depth < _DEEP:
        for each in value:
            _take_untracked(each, take, value, depth + 1)
    elif type(value) is dict and depth < _DEEP:
        for each in value.values():
            _take_untracked(each, take, value, depth + 1)


def by_age() -> list[Any]:
    """Return all tracked objects, those first that lived through most collections."""
    old, middle = gc.get_objects(2), gc.get_objects(1)
    # A list that is in itself lives until a collection, and would be found to hold all the others.
    lists = {id(old), id(middle)}
    young = [each for each in gc.get_objects(0) if id(each) not in lists]
    return list(itertools.chain(old, middle, young))


def _spread(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield all in chunks: the first ones first, then from everywhere alike.

    So that where it ends early, what was seen is a fair share of all ages.
    """
    count = math.ceil(len(values) / _CHUNK)
    digits = count.bit_length()
    for at in sorted(range(count), key=lambda each: f"{each:0{digits}b}"[::-1]):
        yield values[at * _CHUNK : (at + 1) * _CHUNK]


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(values)
    while chunk := list(itertools.islice(rest, _CHUNK)):
        yield chunk


def _reachable(roots: Iterable[object], is_late: Callable[[], bool]) -> Iterator[object]:
    """Yield what can be reached from the roots, without entering modules, classes and code."""
    closed = (types.ModuleType, type, types.CodeType, types.FrameType)
    waiting = deque(roots)
    seen: set[int] = {id(seen_by) for seen_by in waiting}
    while waiting and not is_late():
        value = waiting.popleft()
        yield value
        if isinstance(value, types.FunctionType):
            below: Iterable[object] = gc.get_referents(
                *(each for each in (value.__closure__, value.__defaults__) if each is not None)
            )
        elif is_lru_cache(value):
            below = [each for each in gc.get_referents(value) if type(each) is dict]
        else:
            below = gc.get_referents(value)
        for each in below:
            # by its type: an object that is asked for its class may warn, or run code of the user's
            if gc.is_tracked(each) and id(each) not in seen and not issubclass(type(each), closed):
                seen.add(id(each))
                waiting.append(each)


def user_roots(is_users: Callable[[str], bool]) -> list[object]:
    """Return the globals of the user's modules, and the attributes of the classes in them.

    ``is_users`` tells by a file's name.
    """
    found: list[object] = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(module, types.ModuleType) or not isinstance(file, str):
            continue
        if is_users(file):
            found.append(vars(module))
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    found += list(vars(value).values())
    return found
