"""What the torture's batches are: a pure function of their number, in every process the same.

A batch is of one of several kinds, with sizes of its own. Its bytes are cut from one random
pattern, so that every byte is known and none is like its neighbour.
"""

from __future__ import annotations

import functools
import math
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

PATTERN_BYTES = 1 << 22
LARGEST = 1 << 19
"""The most bytes of one item's tensor."""

DTYPES = (
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.bool,
)

Place = tuple[int, int]
"""The number of a batch, and which of its items."""


class Pair(NamedTuple):
    image: torch.Tensor
    label: int


@functools.cache
def pattern() -> torch.Tensor:
    generator = torch.Generator().manual_seed(20)
    return torch.randint(0, 256, (PATTERN_BYTES,), dtype=torch.uint8, generator=generator)


def leaf(rng: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    size = math.prod(shape) * dtype.itemsize
    start = rng.randrange(PATTERN_BYTES - size)
    cut = pattern()[start : start + size].clone()
    if dtype is torch.bool:
        return (cut & 1).bool().view(shape)
    return cut.view(dtype).view(shape)


def kind_of(number: int) -> str:
    return random.Random(number).choice(list(KINDS))


def items_in(number: int) -> int:
    """How many items a batch has: large ones few."""
    rng = random.Random(number + 1)
    return rng.randint(1, 3) if kind_of(number) == "large" else rng.choice((1, 2, 3, 7, 16))


def places(number: int) -> list[Place]:
    """A batch as the sampler gives it."""
    return [(number, position) for position in range(items_in(number))]


def item(place: Place) -> Any:
    """One item. All of a batch have one structure, and each its own bytes."""
    number, position = place
    shared = random.Random(number + 2)
    own = random.Random(number * 64 + position)
    return KINDS[kind_of(number)](shared, own, f"{number}/{position}")


def _image(shared: random.Random, own: random.Random, name: str) -> Any:
    edge = shared.randint(1, 48)
    return leaf(own, (3, edge, edge), shared.choice(DTYPES)), len(name)


def _nested(shared: random.Random, own: random.Random, name: str) -> Any:
    edge = shared.randint(1, 400)
    inner = {"name": name, "mask": leaf(own, (edge,), torch.bool)}
    return {"a": leaf(own, (edge, 2), shared.choice(DTYPES)), "b": [inner, 0.5 * edge]}


def _many(shared: random.Random, own: random.Random, name: str) -> Any:
    edge, dtype = shared.randint(1, 48), shared.choice(DTYPES)
    return tuple(leaf(own, (edge,), dtype) for _ in range(24))


def _large(shared: random.Random, own: random.Random, name: str) -> Any:
    dtype = shared.choice(DTYPES)
    return leaf(own, (shared.randint(LARGEST // 16, LARGEST) // dtype.itemsize,), dtype)


def _text(shared: random.Random, own: random.Random, name: str) -> Any:
    return name * own.randint(1, 9000)


def _plain(shared: random.Random, own: random.Random, name: str) -> Any:
    return Pair(leaf(own, (), shared.choice(DTYPES)), len(name))


def _loose(shared: random.Random, own: random.Random, name: str) -> Any:
    """Return what default_collate does not take: ragged, viewed, shared, arrays and bytes."""
    dtype = own.choice(DTYPES)
    base = leaf(own, (own.randint(2, 40), own.randint(2, 40)), dtype)
    array = leaf(own, (own.randint(0, 4000),), torch.float32).numpy()
    return {
        "transposed": base.t(),
        "every other": leaf(own, (own.randint(2, 999),), dtype)[::2],
        "shared": (base, base[1:]),
        "array": array,
        "columns": np.asfortranarray(leaf(own, (own.randint(1, 30), 7), torch.int64).numpy()),
        "bytes": array.tobytes()[:100],
        "nothing": torch.empty(0, 3),
    }


KINDS: dict[str, Callable[[random.Random, random.Random, str], Any]] = {
    "image": _image,
    "nested": _nested,
    "many": _many,
    "large": _large,
    "loose": _loose,
    "text": _text,
    "plain": _plain,
}


def gather(items: list[tuple[Place, Any]]) -> tuple[int, Any]:
    """Collate a batch, and say which it is."""
    number = items[0][0][0]
    values = [value for _, value in items]
    return number, values if kind_of(number) == "loose" else default_collate(values)


def expected(number: int) -> Any:
    """Return what a batch has to be."""
    return gather([(place, item(place)) for place in places(number)])[1]


class Content(Dataset[Any]):
    def __getitem__(self, place: Place) -> Any:
        return place, item(place)


class Numbers:
    """A batch sampler of the batches from ``first`` on, as many as ``length``."""

    def __init__(self) -> None:
        self.first = self.length = 0

    def __iter__(self) -> Iterator[list[Place]]:
        return map(places, range(self.first, self.first + self.length))

    def __len__(self) -> int:
        return self.length


def memory(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the memory of all tensors and arrays of a batch, to read or to write."""
    if isinstance(value, torch.Tensor):
        # NumPy has no bfloat16; of any other dtype it shows the same bytes.
        yield (value.view(torch.int16) if value.dtype is torch.bfloat16 else value).numpy()
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from memory(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from memory(inner)


def size_of(value: Any) -> int:
    return sum(array.nbytes for array in memory(value))


def fingerprint(value: Any) -> Any:
    """Return what makes two batches equal: structure, types, shapes, words, and a sum of bytes.

    Without torch's own threads, so that a forked process may ask for it.
    """
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), *map(_sum, memory(value)))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, _sum(value))
    if isinstance(value, Mapping):
        return {key: fingerprint(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [fingerprint(inner) for inner in value]
    return value


def _sum(array: np.ndarray[Any, Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def scribble(value: Any, number: int) -> None:
    """Write over a batch in place, as augmentation on the loop's side does."""
    for array in memory(value):
        array[...] = number % 2 if array.dtype == np.bool_ else number % 120
