"""What a pass changes in this process, and takes back: allocations are traced, and old objects set
aside. Off in what is forked meanwhile."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

from feedrate.measure.causes.lines import FRAMES

_tracing_for_us: set[int] = set()
"""The process that traces for a pass, by its number."""
_frozen_for_us: set[int] = set()
"""The same, while the objects that were there before are set aside."""
_PYTHONS_OWN = 2_000
"""Python 3.12 itself sets some hundred immortal objects aside at each collection; a program that
does so sets aside all that it has imported."""


def start() -> bool:
    """Begin to trace; tell whether that was done here, and not by the program before."""
    if tracemalloc.is_tracing():
        return False
    gc.collect()
    tracemalloc.start(FRAMES)
    _tracing_for_us.add(os.getpid())
    return True


def stop() -> None:
    """End what `start` began; do nothing where it did not."""
    if os.getpid() in _tracing_for_us:
        _tracing_for_us.clear()
        tracemalloc.stop()


def set_aside() -> bool:
    """Have the collector leave out all objects that live now; tell whether it does.

    With millions of them each look at what is new would take seconds. A program that set objects
    aside itself keeps them so, and everything is looked at.
    """
    if gc.get_freeze_count() > _PYTHONS_OWN:
        return False
    gc.freeze()
    _frozen_for_us.add(os.getpid())
    return True


def take_back() -> None:
    """Let the collector see again what `set_aside` left out."""
    if os.getpid() in _frozen_for_us:
        _frozen_for_us.clear()
        gc.unfreeze()


def _after_fork() -> None:
    if _tracing_for_us:
        _tracing_for_us.clear()
        tracemalloc.stop()
    if _frozen_for_us:
        _frozen_for_us.clear()
        gc.unfreeze()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def traceback_of(value: object) -> tracemalloc.Traceback | None:
    """Return where an object was allocated, ``None`` if that was before tracing began.

    Python 3.11 itself does not find objects whose attributes it keeps in front of them.
    """
    found = tracemalloc.get_object_traceback(value)
    if found is None and _IS_3_11 and _has_dict_in_front(type(value)):
        frames = _lookup()(_DOMAIN, id(value) - _FRONT)
        return tracemalloc.Traceback(frames) if frames else None
    return found


_IS_3_11 = sys.version_info[:2] == (3, 11) and sys.implementation.name == "cpython"
_HAS_DICT_IN_FRONT = 1 << 4
"""Py_TPFLAGS_MANAGED_DICT."""
_FRONT = 4 * ctypes.sizeof(ctypes.c_void_p)
"""The collector's two words, and two for the attributes."""
_DOMAIN = 0


_kinds: dict[type, bool] = {}


def _has_dict_in_front(kind: type) -> bool:
    known = _kinds.get(kind)
    if known is None:
        known = _kinds[kind] = bool(kind.__flags__ & _HAS_DICT_IN_FRONT)
    return known


@functools.cache
def _lookup() -> Callable[[int, int], Any]:
    lookup = getattr(ctypes.pythonapi, "_PyTraceMalloc_GetTraceback", None)
    if lookup is None:
        return lambda _, __: None
    lookup.argtypes = [ctypes.c_uint, ctypes.c_size_t]
    lookup.restype = ctypes.py_object
    return lookup  # type: ignore[no-any-return]


def trim() -> bool:
    """Let the C library give back the pages that it keeps for reuse; False where it cannot."""
    if not sys.platform.startswith("linux"):
        return False
    library: Any = ctypes.CDLL(None)
    try:
        library.malloc_trim(0)
    except AttributeError:  # musl has none
        return False
    return True
