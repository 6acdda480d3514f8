"""What a batch holds: how many items, how many bytes, how many tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

Counter = Callable[[Any], int]

_UNKNOWN = object()


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the parts of a dataclass or of a user's own batch class, by name.

    A batch class is one that pins or moves itself (``pin_memory()``, ``to()``), which is how torch
    knows one too. ``None`` for anything else.
    """
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    handled = any(callable(getattr(type(value), name, None)) for name in ("pin_memory", "to"))
    return dict(vars(value)) if handled and hasattr(value, "__dict__") else None


def leaves(batch: Any, is_leaf: Callable[[Any], bool] = lambda _: False) -> Iterator[Any]:
    """Yield everything in a nested batch that is not itself a container, in its order.

    ``is_leaf`` may name containers that are to be yielded whole.
    """
    stack = [batch]
    entered: set[int] = set()
    while stack:
        value = stack.pop()
        if isinstance(value, torch.Tensor) or is_leaf(value):
            yield value
        elif isinstance(value, Mapping):
            stack.extend(reversed(list(value.values())))
        elif isinstance(value, list | tuple):
            stack.extend(reversed(value))
        elif id(value) not in entered and (fields := fields_of(value)) is not None:
            entered.add(id(value))  # objects may hold each other
            stack.extend(reversed(list(fields.values())))
        else:
            yield value


def measure_size(batch: Any) -> tuple[int, int]:
    """Return the bytes of all tensors and arrays in a batch, and how many there are."""
    sizes = [size for leaf in leaves(batch) if (size := _size_of(leaf)) is not None]
    return sum(sizes), len(sizes)


def _size_of(leaf: Any) -> int | None:
    if isinstance(leaf, torch.Tensor) and leaf.layout == torch.sparse_coo:
        whole = leaf.coalesce()  # its parts can be asked for only then
        return whole.indices().nbytes + whole.values().nbytes
    size = getattr(leaf, "nbytes", None)
    return size if isinstance(size, int) else None


def item_counter(batch: Any, loader: Any = None) -> Counter:
    """Return a function that counts the items of batches that are built as this one is.

    Where a loader says how many items its batches have, the part of the batch with that extent is
    the one to count by: it tells a list of images from an image and its label. Otherwise the
    items are counted along the first dimension of the tensors if they agree, then by the lists.
    What a loader without a batch size hands on is one item, unless it looks like a batch.
    """
    extents = list(_extents(batch))
    announced = _announced_items(loader)
    if announced is None:
        uncollated = getattr(loader, "batch_sampler", _UNKNOWN) is None
        return _count_uncollated if uncollated else _guess(batch, extents)
    if set(extents) == {announced}:
        return _by_extent(0)
    for reading in (_count_members, _count_outer):
        if reading(batch) == announced:
            return _or_guess(reading)
    if announced in extents:
        return _by_extent(extents.index(announced))
    return _guess(batch, extents)


def _guess(batch: Any, extents: list[int]) -> Counter:
    """Choose how to count from the batch alone."""
    columns = _columns(batch)
    all_lists = bool(columns) and all(isinstance(part, list | tuple) for part in columns)
    if len(set(extents)) > 1 and all_lists and _count_members(batch) is not None:
        return _or_guess(_count_members)
    if extents:
        return _by_extent(0)
    for reading in (_count_members, _count_outer):
        if reading(batch) is not None:
            return _or_guess(reading)
    return _count_one


def _count_anew(batch: Any) -> int:
    """Count a batch that is built otherwise than the first one was."""
    return _guess(batch, list(_extents(batch)))(batch)


def _announced_items(loader: Any) -> int | None:
    """Return the batch size that a loader, or the sampler that makes its batches, tells."""
    for part in (
        loader,
        getattr(loader, "batch_sampler", None),
        getattr(loader, "sampler", None),
    ):
        size = getattr(part, "batch_size", None)
        if isinstance(size, int) and size > 0:
            return size
    return None


def _extents(batch: Any) -> Iterator[int]:
    """Yield the first extent of everything in a batch that has one, lists of texts last."""
    texts = []
    for leaf in leaves(batch, is_leaf=_counts_itself):
        if _is_texts(leaf):
            texts.append(len(leaf))
        elif (extent := _extent(leaf)) is not None:
            yield extent
    yield from texts


def _extent(leaf: Any) -> int | None:
    if isinstance(leaf, torch.Tensor) and leaf.is_nested:
        return len(leaf.unbind())
    shape = getattr(leaf, "shape", None)
    if isinstance(shape, tuple):
        return int(shape[0]) if shape else None
    return _own_count(leaf)


def _counts_itself(value: Any) -> bool:
    return _is_texts(value) or _own_count(value) is not None


def _is_texts(value: Any) -> bool:
    """Tell whether this is what torch collates texts to."""
    return type(value) in (list, tuple) and bool(value) and isinstance(value[0], str | bytes)


def _own_count(value: Any) -> int | None:
    """Return how many items a batch object says that it has: a packed sequence, graphs."""
    if isinstance(value, PackedSequence):
        return int(value.batch_sizes[0])
    if isinstance(value, list | tuple | dict | str | bytes | int | float):
        return None
    for name in ("batch_size", "num_graphs"):
        with contextlib.suppress(Exception):  # a property may need what this batch does not have
            size = getattr(value, name, None)
            if isinstance(size, tuple) and size:  # tensordict's is a torch.Size
                size = size[0]
            if isinstance(size, int):
                return size
    return None


def _by_extent(index: int) -> Counter:
    return functools.partial(_count_extent, index)


def _count_extent(index: int, batch: Any) -> int:
    if index == 0:  # called for every batch, so the usual shapes are answered first
        first = batch[0] if type(batch) in (list, tuple) and batch else batch
        if isinstance(first, torch.Tensor) and first.ndim and not first.is_nested:
            return first.shape[0]
    for place, extent in enumerate(_extents(batch)):
        if place == index:
            return extent
    return _count_anew(batch)


def _or_guess(reading: Callable[[Any], int | None]) -> Counter:
    def count(batch: Any) -> int:
        found = reading(batch)
        return _count_anew(batch) if found is None else found

    return count


def _count_one(_: Any) -> int:
    return 1


def _columns(batch: Any) -> list[Any]:
    if isinstance(batch, Mapping):
        return list(batch.values())
    if isinstance(batch, list | tuple):
        return list(batch)
    return list((fields_of(batch) or {}).values())


def _count_outer(batch: Any) -> int | None:
    """Count a list of items."""
    is_list = isinstance(batch, list | tuple) and not hasattr(batch, "_fields")
    return len(batch) if is_list else None


def _count_members(batch: Any) -> int | None:
    """Count by the lists in a batch: one for the images, one for the labels, all of one length."""
    lengths = {len(part) for part in _columns(batch) if isinstance(part, list | tuple)}
    return lengths.pop() if len(lengths) == 1 else None


def _count_uncollated(batch: Any) -> int:
    """Count what a dataset gave as it is: one item, unless all its parts have one extent.

    A single tensor is an item unless it has the four dimensions of a stack of images.
    """
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.ndim >= 4 else 1
    if (own := _own_count(batch)) is not None:
        return own
    columns = _columns(batch)
    sizes = [len(part) if isinstance(part, list) else _extent(part) for part in columns]
    flat = all(getattr(part, "ndim", 1) < 2 for part in columns)
    if len(sizes) < 2 or flat or None in sizes or len(set(sizes)) > 1:
        return 1
    return sizes[0] or 1
