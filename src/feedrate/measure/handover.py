"""Handing a target to a child: by name where it has one that can be imported, else pickled."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path
from typing import Any

import msgspec

from feedrate.errors import UsageError
from feedrate.measure.blame import one_line, text_of
from feedrate.measure.wire import pack_object


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """How a child comes by the target. ``target`` is also its name for people."""

    target: str
    pickled: str | None = None
    step: str | None = None
    search_path: tuple[str, ...] = ()


def hand_over(target: Any, step: Any = None) -> Handover:
    """Return how to hand a target (text, function, loader, dataset or pair) to a child.

    Raises:
        UsageError: it has no name and cannot be pickled, or the step does not go with it.
    """
    if target is None:
        raise UsageError("the target is None: give a function, a loader, a dataset or a name")
    if isinstance(target, str):
        if step is not None and not isinstance(step, str):
            raise UsageError(
                "the step of a target given as text is given as text too: its name in that module"
            )
        return Handover(target=target, step=step)
    # "" is the current folder, and what is no text (a Path) is passed over by Python itself
    path = tuple(folder or str(Path.cwd()) for folder in sys.path if isinstance(folder, str))
    if step is None and (name := importable_name(target)):
        return Handover(target=name, search_path=path)
    if isinstance(step, str):
        raise UsageError(f"step {step!r} is a name, and the target is an object: give the function")
    shown = getattr(target, "__qualname__", None) or type(target).__qualname__
    try:
        data = _pickled((target, step))
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(text_of(error))}"
        raise UsageError(
            f"{shown} cannot be handed to another process ({reason}); put a function that makes it "
            "at the top level of a module, and give that"
        ) from error
    return Handover(target=shown, pickled=pack_object(data), search_path=path)


def named_code(file: str, *parts: Any) -> types.CodeType:
    """Return code that was pickled, with the file that it is from."""
    return types.CodeType(*parts).replace(co_filename=file)


def _pickled(what: Any) -> bytes:
    """Return an object as cloudpickle has it, but with the file of each function.

    cloudpickle leaves that out; what a line allocates is told by its file.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if not isinstance(value, types.CodeType):
                return super().reducer_override(value)
            _, parts = self.dispatch_table[types.CodeType](value)
            file = value.co_filename
            named = file if file.startswith("<") else str(Path(file).absolute())
            return named_code, (named, *parts)

    data = io.BytesIO()
    Pickler(data).dump(what)
    return data.getvalue()


def importable_name(target: Any) -> str | None:
    """Return ``file.py:name`` or ``module:name`` where importing that gives this very object."""
    name = getattr(target, "__qualname__", "")
    module_name = getattr(target, "__module__", None)
    if not isinstance(name, str) or not name.isidentifier() or not isinstance(module_name, str):
        return None
    module = sys.modules.get(module_name)
    if module is None or getattr(module, name, None) is not target:
        return None
    if module_name != "__main__":
        return f"{module_name}:{name}"
    file = getattr(module, "__file__", None)
    if not file or Path(file).suffix != ".py" or not Path(file).is_file():
        return None  # a notebook or an interactive session
    return f"{file}:{name}"
