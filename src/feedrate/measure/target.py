"""Targets: finding the factory, calling it, and setting up the loader that it returns."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from torch.nn import Module
from torch.utils.data import DataLoader, Dataset, IterableDataset

from feedrate.errors import TargetError
from feedrate.measure.named import FORMS, missing

DEFAULT_BATCH_SIZE = 32
"""For a target that is a bare dataset: torch's own default, 1, is nobody's choice."""


class Target(NamedTuple):
    """What a factory gave: the loader, and one training step where there is one."""

    loader: DataLoader[Any]
    step: Callable[[Any], object] | None


def load_module(place: str) -> ModuleType:
    """Import a module by file or by name; the user's own errors pass through.

    A file is imported under its own name with its folder on ``sys.path``, as a script's
    neighbours are, so that workers that are spawned can import it too.

    Raises:
        TargetError: there is no such file or module.
    """
    if place.endswith(".py"):
        return _load_file(place)
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    if "/" in place or "\\" in place or not all(place.split(".")):
        raise TargetError(f"{place} is no module's name; {FORMS}")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        # What the module itself imports in vain is the user's own error.
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise TargetError(f"there is no module {place} that can be imported; {FORMS}") from None


def _load_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise TargetError(f"there is no file {place}; {FORMS}")
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    stem = path.stem
    beside = f"feedrate_target_{stem}"
    for name in (stem, beside):
        if (loaded := sys.modules.get(name)) is not None and _is_from(loaded, path):
            return loaded
    if "." not in stem and stem not in sys.modules:
        found = importlib.util.find_spec(stem)
        if found is not None and found.origin and Path(found.origin).resolve() == path:
            return importlib.import_module(stem)
    # Another module has that name already: load the file beside it. Spawned workers cannot
    # import it under this name, and failure.py says so when one of them tries.
    spec = importlib.util.spec_from_file_location(beside, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{place} cannot be imported as Python; {FORMS}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _is_from(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def find_attribute(module: ModuleType, place: str, name: str) -> Any:
    """Return the named object of a module.

    Raises:
        TargetError: there is none; names what the module offers instead.
    """
    try:
        return getattr(module, name)
    except AttributeError:
        offered = [
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) == module.__name__
        ]
        raise TargetError(missing(place, name, offered)) from None


def interpret(value: Any, described: str) -> Target:
    """Read what a factory returned, or an object given in its place.

    Raises:
        TargetError: it is none of a DataLoader, a Dataset, or ``(loader, step)``.
    """
    step: Any = None
    if isinstance(value, tuple) and len(value) == 2:
        value, step = value
        if step is not None and not callable(step):
            raise TargetError(
                f"{described} returned (…, {type(step).__name__}): the second of the two must be "
                "a function step(batch)"
            )
    if isinstance(value, DataLoader):
        return Target(value, step)
    if isinstance(value, Dataset) or _reads_like_a_dataset(value):
        return Target(DataLoader(value, batch_size=DEFAULT_BATCH_SIZE), step)
    raise TargetError(
        f"{described} returned {_describe(value)}: it must return a DataLoader, a Dataset, or "
        "(loader, step) where step(batch) is one training step"
    )


def _reads_like_a_dataset(value: Any) -> bool:
    """Tell whether torch could index it, as it can a datasets.Dataset, which is not torch's."""
    other = isinstance(value, str | bytes | Mapping | list | tuple | Module)
    return not other and hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__")


def _describe(value: Any) -> str:
    if value is None:
        return "None (is a return missing?)"
    kind = type(value)
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"an object of type {name}"


def is_iterable_dataset(loader: DataLoader[Any]) -> bool:
    """Tell whether the loader's dataset is iterated rather than indexed."""
    return isinstance(loader.dataset, IterableDataset)
