"""Walking along what an object holds, with the way to each thing as people write it."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

_MEMBERS = 20
"""Of a long list or dict the first so many are looked at: they are of one kind."""
_DEEPEST = 6
_MOST = 20_000
_STOPS = (types.ModuleType, type, types.FrameType, types.CodeType, types.BuiltinFunctionType)
_PLAIN = (str, bytes, int, float, complex, bool, type(None), bytearray, range)


def walk(root: Any, name: str, seconds: float = 1.0) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of a thing and all below it, what is nearest first, each once.

    Modules and classes are not entered, nor what is below ``_DEEPEST`` levels.
    """
    end = time.perf_counter() + seconds
    seen: set[int] = set()
    waiting: deque[tuple[str, Any, int]] = deque([(name, root, 0)])
    while waiting and len(seen) < _MOST and time.perf_counter() < end:
        path, value, depth = waiting.popleft()
        if id(value) in seen or isinstance(value, _STOPS):
            continue
        seen.add(id(value))
        yield path, value
        if depth < _DEEPEST and not isinstance(value, _PLAIN):
            waiting.extend((below, each, depth + 1) for below, each in members(path, value))


def members(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a thing holds itself, with the way to it."""
    if isinstance(value, Mapping):
        if isinstance(value, dict):  # others may do anything when they are read
            for number, (key, each) in enumerate(list(value.items())[:_MEMBERS]):
                shown = repr(key) if isinstance(key, str | int) else f"#{number}"
                yield f"{path}[{shown}]", each
    elif isinstance(value, list | tuple | deque):
        for number, each in enumerate(value):
            if number == _MEMBERS:
                break
            yield f"{path}[{number}]", each
    elif isinstance(value, functools.partial):
        yield f"{path}.func", value.func
        yield from members(path, value.args)
        yield from members(path, value.keywords)
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        for cell_name, cell in zip(
            value.__code__.co_freevars, value.__closure__ or (), strict=False
        ):
            with contextlib.suppress(ValueError):  # not bound yet
                yield f"{path} ({cell_name})", cell.cell_contents
        return
    yield from ((f"{path}.{key}", each) for key, each in attributes(value).items())


def attributes(value: Any) -> dict[str, Any]:
    """Return an object's own attributes by name, those in slots too."""
    if _is_array(value):
        return {}
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and name in vars(kind):
                try:
                    found[name] = vars(kind)[name].__get__(value, kind)
                except Exception:  # not set
                    continue
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        found |= own
    return found


def _is_array(value: Any) -> bool:
    """Tell a tensor, an array or a table, whose inner parts are no attributes of the user's."""
    top = type(value).__module__.partition(".")[0]
    if top in ("numpy", "pandas", "pyarrow", "polars"):
        return True
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def name_of(kind: type) -> str:
    """Return a type's name as people write it."""
    if kind.__module__ in ("builtins", "__main__", "__mp_main__"):
        return kind.__qualname__
    return f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__qualname__}"
