"""The Python objects that forked workers read: the dataset's, and those of its classes and module.

What workers copy beyond that is no item that they read: Python's collector goes through all objects
that they inherited, and writes to each.
"""

from __future__ import annotations

import sys
from typing import Any

from feedrate.measure.examining.objects import count_objects

_SECONDS = 0.5
_MANY = 1000


def readable_bytes(dataset: Any) -> int | None:
    """Return their size in bytes, ``None`` where there are too many to be counted.

    To be called before workers are started, for to look at an object writes to it.
    """
    kinds = [each for each in type(dataset).__mro__ if each is not object]
    modules = {sys.modules.get(name) for name in (*(each.__module__ for each in kinds), "__main__")}
    named = {
        f"{getattr(owner, '__name__', '')}.{name}": value
        for owner in (*kinds, *modules)
        for name, value in dict(getattr(owner, "__dict__", {})).items()
        if isinstance(value, list | tuple | dict | set | frozenset) and len(value) >= _MANY
    }
    found = count_objects(dataset, named, _SECONDS)
    return found.bytes if found.whole else None
