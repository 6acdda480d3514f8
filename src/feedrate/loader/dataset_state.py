"""What a dataset is made of, briefly: to see whether a program has changed it between two epochs.

Programs do: ``dataset.set_epoch(3)``, another transform, another size of image. Only what is cheap
to look at is: attributes, down through the objects that hold them and short collections. Elements
of long lists and of arrays are not, nor what lies outside of the dataset.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from feedrate.loader.torch_private import changes_of

_SHORT = 64
"""Longer collections and texts are known by which they are, and by their length."""
_MOST_OBJECTS = 2000
_MOST_LEVELS = 12
_NUMBERS = (type(None), bool, int, float, complex)
_TEXTS = (str, bytes)
_COLLECTIONS: tuple[Any, ...] = (list, tuple, set, frozenset)
_LEAVES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)

State = tuple[object, ...]


def state_of(*things: Any) -> State:
    """Return a value that is another once something was changed that is looked at."""
    look = _Look()
    return tuple(look.at(each, 0) for each in things)


class _Look:
    def __init__(self) -> None:
        self._seen: set[int] = set()

    def at(self, thing: Any, level: int) -> State:
        kind = type(thing)
        if kind in _NUMBERS or (kind in _TEXTS and len(thing) <= _SHORT):
            return (kind, thing)
        if kind is types.MethodType:  # made anew each time that it is asked for
            return (id(thing.__func__), self.at(thing.__self__, level))
        which = (kind, id(thing))
        if id(thing) in self._seen or len(self._seen) >= _MOST_OBJECTS or level >= _MOST_LEVELS:
            return which
        self._seen.add(id(thing))
        return (*which, *self._inside(thing, kind, level))

    def _inside(self, thing: Any, kind: type, level: int) -> list[object]:
        """Return what is in it; no code of the user's own is run for that."""
        if issubclass(kind, torch.Tensor):
            return [changes_of(thing)]
        if issubclass(kind, dict):
            return self._pairs(thing, level)
        for plain in _COLLECTIONS:
            if issubclass(kind, plain):
                return self._each(list(plain.__iter__(thing)), level)
        if kind is functools.partial:
            return self._each([thing.func, thing.args, thing.keywords], level)
        if issubclass(kind, _LEAVES):
            return []
        return self._pairs(_attributes(thing), level)

    def _each(self, things: list[Any], level: int) -> list[object]:
        looked_at = things if len(things) <= _SHORT else []
        return [len(things), *(self.at(each, level + 1) for each in looked_at)]

    def _pairs(self, named: dict[Any, Any], level: int) -> list[object]:
        count = dict.__len__(named)
        pairs = list(dict.items(named)) if count <= _SHORT else []
        return [count, *(self.at(each, level + 1) for pair in pairs for each in pair)]


def _attributes(thing: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}
