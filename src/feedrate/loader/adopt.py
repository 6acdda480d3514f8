"""Making a loader that exists already an elastic one, in place.

The object stays: its identity, its attributes, what it is an instance of, its type's name, and
whatever its own class overrides. So a program that made a loader of torch's, or of a subclass,
gets feedrate's without a line of it changed.
"""

from __future__ import annotations

import contextlib
import copyreg
import inspect
import itertools
import types
from collections.abc import Iterator
from typing import Any, cast

from torch.utils.data import DataLoader as TorchDataLoader

from feedrate.errors import TargetError
from feedrate.loader.dataloader import DataLoader, OnWorkerDeath, Transport, check_ways
from feedrate.loader.torch_private import forget_iterator

_MARK = "_feedrate_adopted_from"
_WAYS_TO_ITERATE = ("__iter__", "_get_iterator")

_OWN = frozenset(
    {
        "transport",
        "on_worker_death",
        "pilot",
        "seeds_each_epoch",
        "fills_late",
        "_iterators",
        "_latest",
        "_kept_stats",
        "keep_stats",
    }
)
"""What our class keeps in the object or is asked for by its iterators."""
_PROPERTIES = frozenset(name for name, value in vars(DataLoader).items() if type(value) is property)
"""What would hide an attribute of the object that has the same name."""
_NEW_OBJECT = cast(Any, copyreg).__newobj__
_OF_THIS_PROCESS = frozenset({"_iterators", "_latest", "_kept_stats"})


def adopt(
    loader: Any, *, transport: Transport = "arena", on_worker_death: OnWorkerDeath = "raise"
) -> None:
    """Make torch's loader, or one of a subclass, a `feedrate.DataLoader` in place.

    The methods of a subclass still come first, and what they ask of ``super()`` is answered by
    `feedrate.DataLoader`. A loader that is ours already stays as it is. The iterator that
    ``persistent_workers`` keeps is dropped with its workers, so adopt before an epoch, not in one.
    A copy, pickled or not, is elastic too, and unpickling it needs feedrate.

    Raises:
        ValueError: there is no such transport, or no such way to take a worker's death.
        TargetError: it is no DataLoader, or of a class whose loaders cannot be made elastic.
    """
    check_ways(transport, on_worker_death)
    if isinstance(loader, DataLoader):
        return
    kind = type(loader)
    if not isinstance(loader, TorchDataLoader):
        raise TargetError(f"{kind.__name__} is no torch.utils.data.DataLoader: give one")
    if clashing := _clashing(loader):
        raise _refusal(kind, f"{clashing} is a name that feedrate.DataLoader needs itself")
    if kind is not TorchDataLoader and (past := _leads_past(kind)):
        raise _refusal(kind, f"{past} makes its batches without torch's own iterator")
    try:
        elastic = DataLoader if kind is TorchDataLoader else _elastic(kind)
        object.__setattr__(loader, "__class__", elastic)  # past any guard of the user's class
    except TypeError as error:
        raise _refusal(kind, str(error)) from error
    forget_iterator(loader)
    cast(Any, loader)._become_elastic(transport, on_worker_death)


def _refusal(kind: type, reason: str) -> TargetError:
    return TargetError(
        f"the loader's class {kind.__name__} cannot be made elastic ({reason}): use it with "
        "torch's own workers, or make a feedrate.DataLoader in its place"
    )


def _elastic(kind: type) -> type:
    """Return the class of adopted loaders of ``kind``: always the same one while it is used."""
    subclasses: list[type] = kind.__subclasses__()
    for known in subclasses:
        if vars(known).get(_MARK) is kind:
            return known
    own = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__reduce_ex__": _reduce,
        _MARK: kind,
    }
    return types.new_class(kind.__name__, (kind, DataLoader), {}, lambda names: names.update(own))


def _reduce(self: Any, protocol: Any) -> Any:
    """Name the user's class in a pickle: the one that was made here is found nowhere by name."""
    kind = getattr(type(self), _MARK)
    reduced = kind.__reduce_ex__(self, max(protocol, 2))
    if not isinstance(reduced, tuple) or reduced[0] is not _NEW_OBJECT:
        return reduced  # the user's own way
    _, (_, *arguments), state, *rest = reduced
    if isinstance(state, dict):  # where the user's __getstate__ does not ask ours
        state = {name: value for name, value in state.items() if name not in _OF_THIS_PROCESS}
    return (_make_empty, (kind, *arguments), state, *rest)


def _make_empty(kind: type, *arguments: Any) -> Any:
    """Return an adopted loader of ``kind`` that unpickling will fill."""
    elastic = cast(Any, _elastic(kind))
    loader = elastic.__new__(elastic, *arguments)
    loader._become_elastic("arena", "raise")
    return loader


def _before_torchs(kind: type) -> tuple[type, ...]:
    """Return the classes that Python asks before torch's."""
    return tuple(itertools.takewhile(lambda each: each is not TorchDataLoader, kind.__mro__))


def _clashing(loader: Any) -> str | None:
    """Return an attribute that has a meaning of the user's and would get one of ours."""
    of_object = set(vars(loader))
    of_classes = {name for each in _before_torchs(type(loader)) for name in vars(each)}
    return min((_OWN & (of_object | of_classes)) | (_PROPERTIES & of_object), default=None)


def _leads_past(kind: type) -> str | None:
    """Return the method of a class that never comes to torch's, and so would never to ours."""
    for each in _before_torchs(kind):
        for name in _WAYS_TO_ITERATE:
            if name in vars(each) and not _arrives(kind, vars(each)[name], name):
                return f"{each.__name__}.{name}"
    return None


def _arrives(kind: type, start: Any, name: str) -> bool:
    """Say whether a method asks the class behind its own for ``name``, as far as its code tells.

    It does where it names that method, and ``super`` or one of the classes; or where a method of
    the same object does that it calls. Code that is not Python's tells nothing.
    """
    classes = set(kind.__mro__)
    coming, seen = [start], set()
    while coming:
        function = inspect.unwrap(coming.pop())
        code = getattr(function, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        names = set(_names(code))
        if name == "__iter__" and "_get_iterator" in names:
            return True  # looked at on its own
        if name in names and ("super" in names or classes & set(_classes(function, names))):
            return True
        for each in _before_torchs(kind):
            coming += [value for key, value in vars(each).items() if key in names]
    return False


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the globals and attributes that code names, functions inside it included."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _classes(function: Any, names: set[str]) -> Iterator[type]:
    """Yield the classes that the names of a function stand for; as torch.utils.data.X too."""
    inner = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # nothing was put into it yet
            inner[name] = cell.cell_contents
    inner.pop("__class__", None)  # that is what super() reads
    for name in names:
        value = inner.get(name, function.__globals__.get(name))
        if isinstance(value, type):
            yield value
    if "DataLoader" in names:
        yield TorchDataLoader
