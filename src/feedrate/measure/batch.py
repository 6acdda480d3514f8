"""What a batch holds: how many items, how many bytes, how many tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def leaves(batch: Any) -> Iterator[Any]:
    """Yield everything in a nested batch that is not itself a container."""
    stack = [batch]
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            stack.extend(reversed(list(value.values())))
        elif isinstance(value, list | tuple):
            stack.extend(reversed(value))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            stack.extend(getattr(value, f.name) for f in reversed(dataclasses.fields(value)))
        else:
            yield value


def count_items(batch: Any) -> int:
    """Return how many items a collated batch holds: the first tensor's or array's first extent.

    A batch without either (lists of strings, say) counts its outermost list; anything else is one
    item. Called for every batch, so the usual shapes are answered first.
    """
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.ndim else 1
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], torch.Tensor):
        return batch[0].shape[0] if batch[0].ndim else len(batch)
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", None)
        if isinstance(shape, tuple) and shape:
            return int(shape[0])
    if isinstance(batch, list | tuple):
        first = batch[0] if batch else None
        return len(first) if isinstance(first, list | tuple) else len(batch)
    if isinstance(batch, Mapping):
        first = next(iter(batch.values()), None)
        return len(first) if isinstance(first, list | tuple) else 1
    return 1


def measure_size(batch: Any) -> tuple[int, int]:
    """Return the bytes of all tensors and arrays in a batch, and how many there are."""
    total = count = 0
    for leaf in leaves(batch):
        size = getattr(leaf, "nbytes", None)
        if isinstance(size, int):
            total += size
            count += 1
    return total, count
