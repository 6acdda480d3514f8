"""What an item or a batch is made of: types, shapes, sizes, and what travels with a view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch

from feedrate.measure.batch import fields_of
from feedrate.measure.examined import Leaf

_MOST = 64
_IMAGE_VALUES = 1024
"""Fewer values than this are no image's."""
_LOOKED_AT = 65536
_EXACT = 1e-3


def named_leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield everything in a nested value that is no container, with the way to it."""
    waiting = [(path, value)]
    seen: set[int] = set()
    while waiting:
        where, each = waiting.pop()
        if isinstance(each, torch.Tensor):
            yield where, each
        elif isinstance(each, Mapping):
            waiting += reversed([(f"{where}[{key!r}]", part) for key, part in each.items()])
        elif isinstance(each, list | tuple):
            waiting += reversed([(f"{where}[{n}]", part) for n, part in enumerate(each)])
        elif id(each) not in seen and (fields := fields_of(each)) is not None:
            seen.add(id(each))
            waiting += reversed([(f"{where}.{name}", part) for name, part in fields.items()])
        else:
            yield where, each


def describe(value: Any, path: str) -> tuple[Leaf, ...]:
    """Return the tensors and arrays of an item or batch, the first ones where there are many."""
    found: list[Leaf] = []
    for where, each in named_leaves(value, path):
        if len(found) == _MOST:
            break
        if isinstance(each, torch.Tensor):
            found.append(_of_tensor(where, each))
        elif isinstance(each, np.ndarray):
            found.append(_of_array(where, each))
    return tuple(found)


def build_of(value: Any, path: str) -> list[tuple[str, str]]:
    """Return (way, type and shape) of each leaf: what has to be equal for items to be stacked."""
    found = []
    for where, each in named_leaves(value, path):
        shape = getattr(each, "shape", None)
        dtype = getattr(each, "dtype", None)
        if isinstance(shape, tuple) and dtype is not None:
            found.append((where, f"{list(shape)}"))
        else:
            found.append((where, type(each).__name__))
    return found


def _of_tensor(path: str, tensor: torch.Tensor) -> Leaf:
    try:
        size = tensor.nbytes
        storage = tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # sparse, or of a kind without a storage
        size = storage = 0
    return Leaf(
        path=path,
        kind="tensor",
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        bytes=size,
        storage_bytes=storage,
        values=_values_of(tensor) if tensor.layout == torch.strided else "",
    )


def _of_array(path: str, array: np.ndarray[Any, Any]) -> Leaf:
    return Leaf(
        path=path,
        kind="array",
        dtype=str(array.dtype),
        shape=tuple(array.shape),
        bytes=array.nbytes,
        storage_bytes=array.nbytes,  # pickled: no more than its own travels
        values=_values_of(torch.from_numpy(array))
        if array.dtype in (np.float32, np.float64)
        else "",
    )


def _values_of(tensor: torch.Tensor) -> Literal["", "bytes", "unit"]:
    """Tell floats that are an image's bytes, as they are or divided by 255."""
    if tensor.dtype not in (torch.float32, torch.float64) or tensor.ndim < 2:
        return ""
    if tensor.numel() < _IMAGE_VALUES or tensor.device.type != "cpu":
        return ""
    values = tensor.detach().reshape(-1)[:_LOOKED_AT].double()
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 255) or float(values.std()) == 0:
        return ""
    if high > 1 and bool((values == values.round()).all()):
        return "bytes"
    scaled = values * 255
    if high <= 1 and bool(((scaled - scaled.round()).abs() < _EXACT).all()):
        return "unit"
    return ""
