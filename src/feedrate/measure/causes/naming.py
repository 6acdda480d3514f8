"""What objects, and the places that hold them, are called: "dataset.cache", "lru_cache of f()"."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_Wrapper: type = type(functools.lru_cache(maxsize=1)(lambda: None))
_MAIN = ("__main__", "__mp_main__")
_TARGET = "feedrate_target_"
"""How a module's name begins that was loaded beside another of the same name."""


def type_name(value: object) -> str:
    """Return what an object is, with shape and type of an array or tensor."""
    cls = type(value)
    name = cls.__qualname__
    if cls.__module__ not in ("builtins", *_MAIN):
        name = f"{cls.__module__.partition('.')[0]}.{name}"
    if cls.__module__.partition(".")[0] not in ("numpy", "torch"):
        return name
    with contextlib.suppress(Exception):
        array: Any = value
        kind = str(array.dtype).rpartition(".")[2]
        shape = "×".join(str(length) for length in array.shape) or "scalar"
        return f"{name} {shape} {kind}"
    return name


def is_lru_cache(value: object) -> bool:
    """Tell whether something is a function wrapped by functools' lru_cache or cache."""
    return isinstance(value, _Wrapper)


def function_name(value: Any) -> str:
    """Return a function's name with its class, as ``Photos.decode()``."""
    inner = getattr(value, "__wrapped__", value) if is_lru_cache(value) else value
    name = str(getattr(inner, "__qualname__", type(inner).__name__))
    return f"{name.replace('<locals>.', '')}()"


def attribute_of(holder: Any, held: object) -> str | None:
    """Return under which name an object holds another, ``None`` where it has none for it."""
    own = own_names(holder)
    if own is not None and (own is held or any(value is held for value in own.values())):
        return next((str(name) for name, value in own.items() if value is held), "__dict__")
    for cls in type(holder).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with contextlib.suppress(AttributeError):
                if getattr(holder, name) is held:
                    return str(name)
    return None


def own_names(holder: Any) -> Mapping[str, Any] | None:
    """Return an object's attributes, ``None`` where it has no dict of them."""
    try:
        found = object.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if isinstance(found, Mapping) else None


def held_by_function(function: types.FunctionType, held: object) -> str | None:
    """Return how a function holds something: in its closure, as a default, as an attribute.

    ``None`` where it does not hold it in any of these ways.
    """
    name = function_name(function)
    cells = function.__closure__ or ()
    for variable, cell in zip(function.__code__.co_freevars, cells, strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            if cell.cell_contents is held:
                return f"{variable} in the closure of {name}"
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if any(value is held for value in defaults):
        return f"a default argument of {name}"
    for key, value in vars(function).items():
        if value is held:
            return f"{name.removesuffix('()')}.{key}"
    return None


def globals_name(names: object) -> str | None:
    """Return the name of the module whose globals a dict is, ``None`` of any other object.

    A script's is its file's.
    """
    if type(names) is not dict or "__builtins__" not in names:
        return None
    name, file = names.get("__name__"), names.get("__file__")
    if name in _MAIN and isinstance(file, str):
        return Path(file).stem
    return name.removeprefix(_TARGET) if isinstance(name, str) else None


def frame_locals(is_users: Callable[[str], bool]) -> Iterator[tuple[str, object]]:
    """Yield the local variables of the user's functions that run now, with their names.

    A module's are left out: they are its globals. ``is_users`` tells by a file's name.
    """
    for frame in list(sys._current_frames().values()):
        each: types.FrameType | None = frame
        while each is not None:
            code = each.f_code
            if code.co_name != "<module>" and is_users(code.co_filename):
                for name, value in list(each.f_locals.items()):
                    yield f"{name} in {_function_of(code)}", value
            each = each.f_back


def _function_of(code: types.CodeType) -> str:
    name = getattr(code, "co_qualname", code.co_name)  # since Python 3.11
    return f"{name.replace('<locals>.', '')}()"
