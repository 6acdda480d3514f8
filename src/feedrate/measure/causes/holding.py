"""What holds an object: the shortest way from it up to something that has a name.

Names have: the dataset and whatever else the caller names, globals of modules, attributes of
classes, closures and defaults of functions, function caches, local variables. The way is looked for
level by level; each level asks the collector once, which takes some milliseconds for each 100,000
objects that live.
"""

from __future__ import annotations

import gc
import itertools
import math
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feedrate.measure.causes.naming import (
    attribute_of,
    function_name,
    globals_name,
    held_by_function,
    is_lru_cache,
    own_names,
    type_name,
)

_DEEPEST = 12
_WIDEST = 300
"""So many holders of one level are followed; what more than that hold is nobody's in particular."""
_SECONDS_IN_ALL = 4.0
_DEARER = 20
"""A question about so many objects more costs as much again as one about the first."""
_MOST_NAMES = 4
_SIZED = (list, dict, set, deque)

_Root = tuple[str, object]
"""A name, and the object on the way that it names."""


@dataclass(frozen=True, slots=True)
class Held:
    """What holds an object.

    ``chain`` is its way from a name on, () where none was found, and ``way`` the objects on it,
    from the one that has the name down to the object itself. ``containers`` are those among them
    whose growth can be seen: lists, dicts, sets, functions' caches.
    """

    chain: tuple[str, ...] = ()
    way: tuple[object, ...] = ()
    containers: tuple[object, ...] = ()

    def sizes(self) -> tuple[int, ...]:
        """Return how many things each container has."""
        return tuple(map(_size, self.containers))

    def is_bounded(self) -> bool:
        """Tell whether a container is one with a limit, which it has reached."""
        return any(_size(each) >= (_most(each) or math.inf) for each in self.containers)

    def most(self) -> int | None:
        """Return how many things the tightest container takes, ``None`` where none has a limit."""
        limits = (most for each in self.containers if (most := _most(each)) is not None)
        return min(limits, default=None)


def _size(container: Any) -> int:
    if is_lru_cache(container):
        return int(container.cache_info().currsize)
    return len(container)


def _most(container: Any) -> int | None:
    """Return how many things a container takes; one is no limit: what is made once may grow."""
    if is_lru_cache(container):
        most = container.cache_info().maxsize
    else:
        most = container.maxlen if isinstance(container, deque) else None
    return most if most is None or most > 1 else None


class Holders:
    """Finds what holds objects.

    Args:
        named: objects that have a name, such as the dataset.
        variables: local variables, as `frame_locals` gives them.
        own: the identities of containers of ours that the objects are in too.
    """

    def __init__(
        self,
        named: Mapping[str, object],
        variables: Iterable[tuple[str, object]] = (),
        own: Iterable[int] = (),
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._named = {id(value): name for name, value in named.items()}
        for name, value in named.items():
            if (attributes := own_names(value)) is not None:
                self._named[id(attributes)] = name
        self._locals = {
            id(value): name
            for name, value in variables
            if gc.is_tracked(value) and id(value) not in self._named
        }
        self._own = frozenset(own)
        self._clock = clock
        self._left = _SECONDS_IN_ALL

    def find(self, sample: object, above: Mapping[int, object], seconds: float) -> Held:
        """Return what holds a sample; ``above`` has what the collector cannot tell of that.

        It takes no more than about ``seconds`` of this thread's CPU time, and all searches together
        a few of them.
        """
        begin = self._clock()
        try:
            return self._find(sample, above, begin + min(seconds, self._left))
        finally:
            self._left = max(0.0, self._left - (self._clock() - begin))

    def _find(self, sample: object, above: Mapping[int, object], end: float) -> Held:
        way: list[object] = [sample]
        while (around := above.get(id(way[-1]))) is not None:
            way.append(around)
        search = _Search(way[-1], self._own | {id(way)})
        cost = 0.0
        while True:
            if (found := self._root(search)) is not None:
                label, top = found
                return _held(label, [*search.path(top), *reversed(way[:-1])])
            begin = self._clock()
            if search.depth >= _DEEPEST or begin + cost > end:
                return Held()
            affordable = _DEARER * ((end - begin) / cost - 1) if cost > 0 else _WIDEST
            asked = search.climb(max(1, min(_WIDEST, int(affordable))))
            if not search.level:
                return Held()
            cost = (self._clock() - begin) / (1 + asked / _DEARER)

    def _root(self, search: _Search) -> _Root | None:
        """Return the name that this level has come to, and the object that it names."""
        for name_of in (_of_named, _of_globals, _of_class, _of_function, _of_local):
            for holder in search.level:
                found = name_of(self, holder, search.below(holder))
                if found is not None:
                    return found
        return None

    def name_of(self, value: object) -> str | None:
        """Return the name that the caller gave an object, or its dict of attributes."""
        return self._named.get(id(value))

    def local_name(self, value: object) -> str | None:
        """Return the local variable that an object is."""
        return self._locals.get(id(value))


def _of_named(holders: Holders, holder: Any, below: Sequence[object]) -> _Root | None:
    name = holders.name_of(holder)
    if name is None or not below:
        return None
    key = _key_of(holder, below[0]) or attribute_of(holder, below[0])
    return (f"{name}.{key}" if key is not None else name), below[0]


def _of_globals(_: Holders, holder: Any, below: Sequence[object]) -> _Root | None:
    module = globals_name(holder)
    if module is None or not below:
        return None
    key = _key_of(holder, below[0])
    return (f"{module}.{key}", below[0]) if key is not None else None


def _of_class(_: Holders, holder: Any, below: Sequence[object]) -> _Root | None:
    if isinstance(holder, type):
        for held in below[:2]:  # between them lies the class's own dict
            for key, value in vars(holder).items():
                if value is held:
                    return f"{holder.__qualname__}.{key}", held
    return None


def _of_function(_: Holders, holder: Any, below: Sequence[object]) -> _Root | None:
    if is_lru_cache(holder) and below:
        return f"lru_cache of {function_name(holder)}", holder
    if isinstance(holder, types.FunctionType):
        for held in below[:3]:  # between them lie a tuple and a cell
            if (name := held_by_function(holder, held)) is not None:
                return name, held
    if isinstance(holder, types.GeneratorType) and below and holder.gi_frame is not None:
        key = _key_of(holder.gi_frame.f_locals, below[0])
        return (f"{key} in {holder.__qualname__}()", below[0]) if key is not None else None
    return None


def _of_local(holders: Holders, holder: Any, _: Sequence[object]) -> _Root | None:
    name = holders.local_name(holder)
    return (name, holder) if name is not None else None


def _key_of(holder: Any, held: object) -> str | None:
    """Return the name under which a dict of names holds something."""
    if not isinstance(holder, dict):
        return None
    found = (key for key, value in list(holder.items()) if value is held)
    return next((key for key in found if isinstance(key, str)), None)


class _Search:
    """One search upwards: the objects of the present level, and for each what it holds below.

    All are in one list, and how they hang together in numbers, so that what holds the objects can
    be told from what is ours.
    """

    def __init__(self, sample: object, own: frozenset[int]) -> None:
        self.level: list[object] = [sample]
        self.depth = 0
        self._all: list[object] = [sample]
        self._index = {id(sample): 0}
        self._below = [-1]
        self._own = set(own) | {id(self._all), id(self.level)}

    def below(self, holder: object) -> list[object]:
        """Return what a holder of this level holds, and so on down to the sample; no holder."""
        return self.path(holder)[1:]

    def path(self, top: object) -> list[object]:
        """Return the objects from one down to the sample."""
        place = self._index[id(top)]
        found = []
        while place >= 0:
            found.append(self._all[place])
            place = self._below[place]
        return found

    def climb(self, most: int) -> int:
        """Go one level up from the first ``most`` objects; return from how many that was."""
        del self.level[most:]
        asked = len(self.level)
        self.depth += 1
        below = {id(each): self._index[id(each)] for each in self.level}
        above: list[object] = []
        referrers = gc.get_referrers(*self.level)
        ours = self._own | {id(referrers), id(above)}
        for each in referrers:
            if (
                id(each) in self._index
                or id(each) in ours
                or isinstance(each, types.FrameType | types.ModuleType | types.TracebackType)
            ):
                continue
            held = next((below[id(r)] for r in gc.get_referents(each) if id(r) in below), None)
            if held is None:
                continue
            self._index[id(each)] = len(self._all)
            self._all.append(each)
            self._below.append(held)
            above.append(each)
            if len(above) >= _WIDEST:
                break
        self.level = above
        self._own.add(id(above))
        return asked


def _held(label: str, way: list[object]) -> Held:
    """Return the chain from the named object, the first on the way, down to the sample."""
    path = way[:1]
    for each in way[1:]:
        if own_names(path[-1]) is not each:
            path.append(each)
    names = [label]
    is_direct = True
    for holder, held in itertools.pairwise(path):
        attribute = None if isinstance(holder, _SIZED) else attribute_of(holder, held)
        if attribute is None:
            is_direct = False
            if not (is_lru_cache(holder) or is_lru_cache(path[0])):
                names.append(type_name(holder))
        elif is_direct:
            names[-1] += f".{attribute}"
        else:
            names.append(f"{type_name(holder)}.{attribute}")
            is_direct = True
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES - 2 : -1] = ["…"]
    return Held(chain=tuple(names), way=tuple(path), containers=tuple(filter(_counts, path[:-1])))


def _counts(value: object) -> bool:
    return is_lru_cache(value) or isinstance(value, _SIZED)
