"""Tensors, whose storages Python does not allocate: their bytes, and the graphs that they hold.

torch is looked up and not imported: where no code has, there is no tensor.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

MOST_NODES = 20_000
"""So many nodes of graphs are looked at, if nothing else is said: about 50 ms."""
_MOST_ATTRIBUTES = 64


def tensors_among(objects: Sequence[object]) -> list[Any]:
    """Return the tensors among objects, of subclasses too; a million take about 50 ms."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is None:
        return []
    kinds = {tensor, *_subclasses(tensor)}
    return [each for each, kind in zip(objects, map(type, objects), strict=True) if kind in kinds]


def is_tensor(value: object) -> bool:
    """Tell whether an object is a tensor."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def _subclasses(kind: Any) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def storage_of(tensor: Any) -> tuple[tuple[str, int], int] | None:
    """Return what tells a tensor's storage from others, and its bytes.

    ``None`` where it has none, or one that something else allocated and accounts for: NumPy's
    arrays, memory-mapped files.
    """
    try:
        storage = tensor.untyped_storage()
        device, size = storage.device.type, storage.nbytes()
        if device == "meta" or not (device != "cpu" or storage.resizable() or storage.is_shared()):
            return None
        return (device, storage.data_ptr()), size
    except (RuntimeError, NotImplementedError, AttributeError):
        return None  # sparse, functional or fake


def graph_of(tensor: Any) -> Any:
    """Return the node that made a tensor, ``None`` where it holds no autograd graph."""
    try:
        return tensor.grad_fn if tensor.requires_grad else None
    except (RuntimeError, AttributeError):
        return None


def graph_nodes(tensors: Sequence[Any], most: int = MOST_NODES) -> int:
    """Return the number of nodes of the largest graph among those that the tensors hold.

    The last tensors are the newest, and come first: what a graph has saved for its backward pass
    are tensors too, whose own graphs are parts of it and are passed over. ``most`` bounds how many
    nodes are looked at in all.
    """
    largest = 0
    left = most
    seen: set[Any] = set()
    for tensor in reversed(tensors):
        node = graph_of(tensor)
        if node is None or left <= 0 or node in seen:
            continue
        found = set(_nodes(node, left))
        seen |= found
        left -= len(found)
        largest = max(largest, len(found))
    return largest


def graph_bytes(tensor: Any) -> int:
    """Return the bytes that a tensor's graph keeps for its backward pass.

    Without parameters, which live anyway. torch shows what a node saved as ``_saved_…`` attributes,
    as its notes on autograd say; what it does not show is not counted.
    """
    node = graph_of(tensor)
    if node is None:
        return 0
    parameters: set[tuple[str, int]] = set()
    saved: dict[tuple[str, int], int] = {}
    for each in _nodes(node, MOST_NODES):
        leaf = getattr(each, "variable", None)
        if leaf is not None and (storage := storage_of(leaf)) is not None:
            parameters.add(storage[0])
        for kept in _saved(each):
            if (storage := storage_of(kept)) is not None:
                saved[storage[0]] = storage[1]
    return sum(size for key, size in saved.items() if key not in parameters)


def _nodes(first: Any, most: int) -> Iterator[Any]:
    seen = {first}
    waiting = [first]
    while waiting and most > 0:
        node = waiting.pop()
        most -= 1
        yield node
        for below, _ in getattr(node, "next_functions", ()):
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)


def _saved(node: Any) -> Iterator[Any]:
    names = [name for name in dir(node) if name.startswith("_saved_")]
    for name in names[:_MOST_ATTRIBUTES]:
        with contextlib.suppress(Exception):  # freed by a backward pass, or not a tensor's
            value = getattr(node, name)
            values = value if isinstance(value, tuple | list) else (value,)
            yield from tensors_among(values)
