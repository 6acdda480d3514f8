"""Reference cycles that wait for the collector: collected once, and looked at before they go."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from feedrate.analysis.causes import Place
from feedrate.measure.causes.naming import attribute_of, own_names, type_name

_LONGEST = 6
_TRIED = 200


@dataclass(frozen=True, slots=True)
class Loop:
    """One cycle, and the objects that wait in such cycles.

    ``way`` is how it comes back to itself, as ("Node.parent", "Node.children"), ``name`` the type
    of its first object, ``counts`` how many objects of which type were allocated at which line.
    """

    way: tuple[str, ...]
    name: str
    counts: Counter[tuple[Place, str]]

    def count(self, place: Place) -> tuple[str | None, int]:
        """Return the type of which most objects were allocated at a line, and how many."""
        found = [(count, name) for (at, name), count in self.counts.items() if at == place]
        count, name = max(found, default=(0, None))
        return name, count


def collect(place_of: Callable[[object], Place | None]) -> Loop | None:
    """Collect all cycles that nothing holds; return one of those that hold most, or ``None``.

    Finalizers run as in any collection. The collector keeps what it finds until it was looked at,
    and frees it then. What the program keeps in ``gc.garbage`` itself stays there.
    """
    flags = gc.get_debug()
    before = len(gc.garbage)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(flags)
    found = gc.garbage[before:]
    loop = _read(found, place_of)
    found.clear()
    del gc.garbage[before:]
    gc.collect()
    return loop


def _read(garbage: list[object], place_of: Callable[[object], Place | None]) -> Loop | None:
    counts: Counter[tuple[Place, str]] = Counter()
    attributes = {id(own) for each in garbage[:_TRIED] if (own := own_names(each)) is not None}
    for each in garbage:
        place = place_of(each)
        if place is not None and id(each) not in attributes:
            counts[place, type(each).__qualname__] += 1
    if not counts:
        return None
    within = {id(each) for each in garbage}
    traced = [each for each in garbage if place_of(each) is not None and id(each) not in attributes]
    # an object with attributes says more than the list that it is in
    traced.sort(key=lambda each: own_names(each) is None)
    for each in traced[:_TRIED]:
        if way := _cycle(each, within):
            return Loop(way=way, name=type_name(each), counts=counts)
    return None


def _cycle(start: object, within: set[int]) -> tuple[str, ...]:
    """Return the shortest way from an object back to itself among the garbage, () for none."""
    came: dict[int, tuple[object, object]] = {}
    waiting: deque[tuple[object, int]] = deque([(start, 0)])
    while waiting:
        holder, length = waiting.popleft()
        if length >= _LONGEST:
            break
        for held in _held_by(holder):
            if held is start:
                return _names(_back(holder, came), start)
            if id(held) in within and id(held) not in came:
                came[id(held)] = (held, holder)
                waiting.append((held, length + 1))
    return ()


def _held_by(holder: object) -> Iterable[object]:
    """Return what an object holds, past its own dict of attributes."""
    own = own_names(holder)
    for each in gc.get_referents(holder):
        if each is own:
            yield from gc.get_referents(each)
        else:
            yield each


def _back(last: object, came: dict[int, tuple[object, object]]) -> list[object]:
    way = [last]
    while id(way[-1]) in came:
        way.append(came[id(way[-1])][1])
    return way[::-1]


def _names(way: list[object], start: object) -> tuple[str, ...]:
    names = []
    for holder, held in zip(way, [*way[1:], start], strict=True):
        attribute = attribute_of(holder, held)
        name = type(holder).__qualname__
        names.append(f"{name}.{attribute}" if attribute is not None else name)
    return tuple(names)
