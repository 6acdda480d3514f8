"""Small batches of many tensors, whose cost is their number and not their size.

Tensors of one dtype and shape are a group: they are checked, copied and rebuilt together, in one
call for all. Their bytes travel in the message itself, and each arrives with a storage of its own.
What holds anything unusual (strides, gradients, shared memory) is left to the careful way.
"""

from __future__ import annotations

import io
import math
import operator
import pickle
import struct
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from feedrate.loader.arena import aligned
from feedrate.loader.numpy_views import NUMPY_DTYPES

_LEAST_LIMIT = 32 * 1024
_LIMIT_A_TENSOR = 4 * 1024
_MOST_LIMIT = 128 * 1024
_MOST_PICKLE = 32 * 1024
MARK = 1
_HEAD = struct.Struct("<BqII")
"""The mark, the batch's number, bytes of the table, bytes of the pickle. The table, the pickle and
the tensors follow."""
_TENSOR = {torch.Tensor}
# Sixty-four tensors are asked the same: by map, which runs no Python for each.
_wants_grad, _is_cpu = operator.attrgetter("requires_grad"), operator.attrgetter("is_cpu")
_shape, _dtype = operator.attrgetter("shape"), operator.attrgetter("dtype")
_STRING = {str}
_SHARED_TYPES = (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)


def most_bytes(tensors: int) -> int:
    """Return up to what size a batch of so many tensors is a small one.

    A message is copied twice more than a slot, and a slot costs more for each tensor.
    """
    return min(_LEAST_LIMIT + _LIMIT_A_TENSOR * tensors, _MOST_LIMIT)


class Group(NamedTuple):
    """Tensors of one dtype and shape: where they lie, and their places among all (None: all)."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    places: tuple[int, ...] | None


class Table(NamedTuple):
    """What a batch is made of. The same for batch after batch, as a rule.

    ``container`` is dict, list or tuple, and ``keys`` a dict's, where tensors alone lie in it;
    ``None`` where a pickle says what they lie in.
    """

    container: type | None
    keys: tuple[str, ...]
    groups: tuple[Group, ...]
    tensors: int


class _Taken(threading.local):
    tensors: Iterator[torch.Tensor]


_taken = _Taken()


def _take() -> torch.Tensor:
    """Stand for a tensor in a pickle: return the next one."""
    return next(_taken.tensors)


_IN_PICKLE = (_take, ())


class _Careful(Exception):
    """This batch is to go the careful way."""


class _Pickler(pickle.Pickler):
    """Takes all tensors out of a pickle.

    It is not torch's pickler: what that one would share through files and descriptors is to be
    shared once, the careful way.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.tensors: list[torch.Tensor] = []

    def reducer_override(self, value: Any) -> Any:
        """Return how a tensor is found again."""
        if type(value) is torch.Tensor:
            self.tensors.append(value)
            return _IN_PICKLE
        if isinstance(value, _SHARED_TYPES):
            raise _Careful
        return NotImplemented


class SmallEncoder:
    """The worker's side."""

    def __init__(self) -> None:
        self._table = Table(None, (), (), 0)
        self._words = b""

    def encode(self, number: int, data: Any) -> bytes | None:
        """Return the message's body, ``None`` for a batch that has to go the careful way."""
        container, keys, tensors = _flat(data)
        body = b""
        if container is None:
            tensors, body = _pickle(data)
            if not tensors or len(body) > _MOST_PICKLE:
                return None
        found = _group(tensors)
        if found is None:
            return None
        groups, size = found
        table = Table(container, keys, groups, len(tensors))
        if table != self._table:
            self._table, self._words = table, pickle.dumps(table)
        payload = bytearray(size)
        try:
            for group in groups:
                places = group.places
                members = tensors if places is None else [tensors[place] for place in places]
                out = np.ndarray((len(members), *group.shape), group.dtype, payload, group.offset)
                torch.stack(members, out=torch.from_numpy(out))
        except RuntimeError:  # of a kind that stack does not take
            return None
        head = _HEAD.pack(MARK, number, len(self._words), len(body))
        return b"".join((head, self._words, body, payload))


def _pickle(data: Any) -> tuple[list[torch.Tensor], bytes]:
    """Return the tensors and the pickle of all else; no tensors where that cannot be had."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(data)
    except Exception:  # the careful way meets it again, and tells
        return [], b""
    return pickler.tensors, file.getvalue()


def _flat(data: Any) -> tuple[type | None, tuple[str, ...], list[torch.Tensor]]:
    """Return container, keys and tensors of a batch that is tensors in a dict, list or tuple."""
    kind = type(data)
    if kind is dict:
        if set(map(type, data.values())) == _TENSOR and set(map(type, data)) == _STRING:
            return dict, tuple(data), list(data.values())
    elif kind in (list, tuple) and set(map(type, data)) == _TENSOR:
        return kind, (), list(data)
    return None, (), []


def _group(tensors: list[torch.Tensor]) -> tuple[tuple[Group, ...], int] | None:
    """Return the groups and the bytes of all, ``None`` where some tensor is of another kind."""
    try:
        if any(map(_wants_grad, tensors)) or not all(map(_is_cpu, tensors)):
            return None
        if not all(map(torch.Tensor.is_contiguous, tensors)):
            return None
        shapes = set(map(_shape, tensors))
        dtypes = set(map(_dtype, tensors))
        starts = list(map(torch.Tensor.data_ptr, tensors))
    except RuntimeError:  # sparse and nested tensors have no such figures
        return None
    if not dtypes <= NUMPY_DTYPES.keys():
        return None
    if len(shapes) == len(dtypes) == 1:
        return _one_group(dtypes.pop(), shapes.pop(), starts)
    return _several_groups(tensors, starts)


Groups = tuple[tuple[Group, ...], int]


def _one_group(dtype: torch.dtype, shape: torch.Size, starts: list[int]) -> Groups | None:
    one = math.prod(shape) * dtype.itemsize
    size = one * len(starts)
    starts.sort()
    if not 0 < size <= most_bytes(len(starts)):
        return None
    if len(starts) > 1 and min(map(operator.sub, starts[1:], starts)) < one:
        return None  # some share their memory
    return (Group(NUMPY_DTYPES[dtype], tuple(shape), 0, None),), size


def _several_groups(tensors: list[torch.Tensor], starts: list[int]) -> Groups | None:
    sizes = [t.nbytes for t in tensors]
    ranges = sorted(zip(starts, sizes, strict=True))
    if 0 in sizes or any(a + size > b for (a, size), (b, _) in pairwise(ranges)):
        return None
    places: dict[tuple[torch.dtype, torch.Size], list[int]] = {}
    for place, t in enumerate(tensors):
        places.setdefault((t.dtype, t.shape), []).append(place)
    groups = []
    end = 0
    for (dtype, shape), members in places.items():
        groups.append(Group(NUMPY_DTYPES[dtype], tuple(shape), end, tuple(members)))
        end = aligned(end + sum([sizes[place] for place in members]))
    return (tuple(groups), end) if end <= most_bytes(len(tensors)) else None


class SmallDecoder:
    """The loop's side of one worker."""

    def __init__(self) -> None:
        self._words = b""
        self._table = Table(None, (), (), 0)

    def decode(self, body: memoryview) -> tuple[int, Any]:
        """Return number and batch, whose tensors are the caller's own."""
        _, number, words, length = _HEAD.unpack_from(body)
        at = _HEAD.size
        if body[at : at + words] != self._words:
            self._words = bytes(body[at : at + words])
            self._table = pickle.loads(self._words)
        at += words
        table = self._table
        tensors = _rebuild(table, bytearray(body[at + length :]))
        if table.container is dict:
            return number, dict(zip(table.keys, tensors, strict=True))
        if table.container is not None:
            return number, table.container(tensors)
        before = getattr(_taken, "tensors", None)
        _taken.tensors = iter(tensors)
        try:
            return number, pickle.loads(body[at : at + length])
        finally:
            if before is not None:
                _taken.tensors = before


def _rebuild(table: Table, memory: bytearray) -> list[torch.Tensor]:
    """Return the tensors in their order, upon memory that is theirs alone."""
    if len(table.groups) == 1 and table.groups[0].places is None:
        return _members(table.groups[0], table.tensors, memory)
    tensors: list[Any] = [None] * table.tensors
    for group in table.groups:
        assert group.places is not None
        members = _members(group, len(group.places), memory)
        for place, tensor in zip(group.places, members, strict=True):
            tensors[place] = tensor
    return tensors


def _members(group: Group, count: int, memory: bytearray) -> list[torch.Tensor]:
    if group.shape:
        rows = np.ndarray((count, *group.shape), group.dtype, memory, group.offset)
        return list(map(torch.from_numpy, rows))
    size = group.dtype.itemsize
    return [
        torch.from_numpy(np.ndarray((), group.dtype, memory, group.offset + i * size))
        for i in range(count)
    ]
