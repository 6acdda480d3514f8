"""The small attributes of a dataset: what costs nothing to copy, to compare and to put back."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from feedrate.measure.examining.digests import UNKNOWN, digest
from feedrate.measure.examining.walking import attributes

_SHORT, _LITTLE, _DEEPEST = 64, 64 << 10, 3


def digests_of(dataset: Any) -> dict[str, str]:
    """Return digests of an object's own attributes, of those that are small and can be compared."""
    small = {name: value for name, value in attributes(dataset).items() if is_small(value)}
    found = {name: digest(value) for name, value in small.items()}
    return {name: each for name, each in found.items() if each != UNKNOWN}


def copies_of(dataset: Any) -> dict[str, Any]:
    """Return copies of an object's own attributes, of those that are small."""
    found = {}
    for name, value in attributes(dataset).items():
        if is_small(value):
            with contextlib.suppress(Exception):  # whatever a user's __deepcopy__ raises
                found[name] = copy.deepcopy(value)
    return found


def put(dataset: Any, name: str, value: Any) -> None:
    """Set an attribute; an array in place, since it may be shared with the workers."""
    now: Any = getattr(dataset, name, None)
    if _are_alike(now, value, torch.Tensor):
        now.copy_(value)
    elif _are_alike(now, value, np.ndarray):
        now[...] = value
    else:
        with contextlib.suppress(AttributeError):  # a slot that is read-only
            setattr(dataset, name, value)


def _are_alike(one: Any, other: Any, kind: type) -> Any:
    if not (isinstance(one, kind) and isinstance(other, kind)):
        return False
    first: Any = one
    second: Any = other
    return first.shape == second.shape and first.dtype == second.dtype


def is_small(value: Any, depth: int = 0) -> bool:
    """Tell whether it costs nothing to look at whole: an epoch's number, weights, a short list.

    Of objects those of the user's own whose attributes are all small; no function, no module.
    """
    if value is None or isinstance(value, bool | int | float | complex):
        return True
    if isinstance(value, str | bytes):
        return len(value) <= _LITTLE
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return value.nbytes <= _LITTLE
    inner = _inner(value)
    if inner is None or depth == _DEEPEST or len(inner) > _SHORT:
        return False
    return all(is_small(each, depth + 1) for each in inner)


def _inner(value: Any) -> Collection[Any] | None:
    """Return what a container or an object of the user's own holds, ``None`` of anything else."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set):
        return value
    own = getattr(value, "__dict__", None)
    return own.values() if type(own) is dict and own else None
