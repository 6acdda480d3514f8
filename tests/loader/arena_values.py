"""Values of every kind that a batch may hold, made from a description in any process the same.

A description is plain data, so that it can be a sampler's index: a worker makes the value, the test
makes it again, and the two have to be equal. It is a tuple whose first word says what is made.
"""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import Dataset, default_collate

Point = namedtuple("Point", "x y")


@dataclass
class Sample:
    image: Any
    name: str


def _names(*names: str) -> list[str]:
    """Return those of the dtypes that this torch has."""
    return [name for name in names if hasattr(torch, name)]


REAL = _names("float64", "float32", "float16", "bfloat16")
COMPLEX = _names("complex64", "complex128", "complex32")
OTHERS = _names(
    *("uint8", "int8", "int16", "int32", "int64", "bool", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
DTYPES = [*REAL, *COMPLEX, *OTHERS]

# Ways to look at a tensor, each with the dimensions that it needs.
VIEWS: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "plain": (0, lambda t: t),
    "transposed": (2, lambda t: t.transpose(0, -1)),
    "stepped": (1, lambda t: t[::2]),
    "tail": (1, lambda t: t[1:]),
    "expanded": (0, lambda t: t.unsqueeze(0).expand(3, *t.shape)),
    "channels last": (4, lambda t: t.contiguous(memory_format=torch.channels_last)),
    "reversed": (2, lambda t: t.permute(*reversed(range(t.ndim)))),
}
ARRAYS = ("<f4", "<f8", ">i4", "<i2", "u1", "?", "<c8", "<U5", "S3", "<M8[s]", "O", "i4,f8")


def make(description: Any) -> Any:
    """Return the value that a description describes."""
    word, *rest = description
    return globals()[f"_make_{word}"](*rest)


def _make_tensor(dtype: str, shape: tuple[int, ...], view: str, seed: int) -> torch.Tensor:
    tensor = _filled(getattr(torch, dtype), shape, seed)
    least, look = VIEWS[view]
    return look(tensor) if tensor.ndim >= least else tensor


def _filled(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    count = 1
    for extent in shape:
        count *= extent
    raw = torch.frombuffer(
        bytearray(random.Random(seed).randbytes(count * dtype.itemsize + 1)), dtype=torch.uint8
    )
    if dtype is torch.bool:
        return (raw[:count] & 1).bool().view(shape)
    return raw[: count * dtype.itemsize].clone().view(dtype).view(shape)


def _make_grad(dtype: str, shape: tuple[int, ...], view: str, seed: int) -> torch.Tensor:
    return _make_tensor(dtype, shape, view, seed).detach().requires_grad_()


def _make_conjugate(dtype: str, shape: tuple[int, ...], part: str, seed: int) -> torch.Tensor:
    """A lazily conjugated or negated view."""
    conjugate = _filled(getattr(torch, dtype), shape, seed).conj()
    return {"whole": conjugate, "imag": conjugate.imag, "real": conjugate.real}[part]


def _make_array(dtype: str, shape: tuple[int, ...], order: str, seed: int) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.hasobject:
        array = np.empty(shape, kind)
        array.fill({"seed": seed})
        return array
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = random.Random(seed).randbytes(size)
    if kind.kind in "?U":  # not every byte pattern is one
        raw = bytes(size)
    array = np.frombuffer(bytearray(raw), kind).reshape(shape)
    if order == "F":
        return np.asfortranarray(array)
    return array[::2] if order == "stepped" and array.ndim else array


def _make_text(text: str, times: int) -> str:
    return text * times


def _make_bytes(data: bytes, times: int) -> bytes:
    return data * times


def _make_object(value: Any) -> Any:
    return value


def _make_packed(lengths: list[int], seed: int) -> PackedSequence:
    parts = [_filled(torch.float32, (n, 2), seed + n) for n in sorted(lengths, reverse=True)]
    return pack_sequence(parts)


def _make_twice(inner: Any) -> Any:
    """The same object in two places, and a part of it where it is a tensor."""
    value = make(inner)
    part = value[1:] if isinstance(value, torch.Tensor) and value.ndim else value
    return [value, value, part]


def _make_collated(inner: Any, count: int) -> Any:
    """What default_collate makes of some items; in a worker it writes into the slot."""
    return default_collate([make(inner)] * count)


def _make_list(parts: Any) -> list[Any]:
    return [make(part) for part in parts]


def _make_tuple(parts: Any) -> tuple[Any, ...]:
    return tuple(make(part) for part in parts)


def _make_dict(pairs: Any) -> dict[str, Any]:
    return {key: make(part) for key, part in pairs}


def _make_point(x: Any, y: Any) -> Point:
    return Point(make(x), make(y))


def _make_sample(image: Any, name: str) -> Sample:
    return Sample(make(image), name)


class Made(Dataset[Any]):
    """Its items are whatever their index describes."""

    def __getitem__(self, description: Any) -> Any:
        return make(description)


class Feed:
    """A sampler of the descriptions that it is given for the next epoch."""

    def __init__(self) -> None:
        self.descriptions: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.descriptions)

    def __len__(self) -> int:
        return len(self.descriptions)


def as_is(value: Any) -> Any:
    """A collate function that changes nothing: torch's would make tensors of arrays."""
    return value


def difference(sent: Any, got: Any, where: str = "batch") -> str | None:
    """Return what of two values is not equal, in words; ``None`` where all is."""
    if type(sent) is not type(got):
        return f"{where}: {type(sent).__name__} arrived as {type(got).__name__}"
    if isinstance(sent, torch.Tensor):
        return _tensors_differ(sent, got, where)
    if isinstance(sent, np.ndarray):
        return _arrays_differ(sent, got, where)
    one, other = _parts(sent), _parts(got)
    if one is None or other is None:
        return None if sent == got else f"{where}: {sent!r} arrived as {got!r}"
    if list(one) != list(other):
        return f"{where}: {list(one)} arrived as {list(other)}"
    found = (difference(one[key], other[key], f"{where}[{key!r}]") for key in one)
    return next((each for each in found if each), None)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """Return what a value consists of, ``None`` where it is one thing."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, list | tuple):  # also named tuples and packed sequences
        return dict(enumerate(value))
    return None


def _tensors_differ(sent: torch.Tensor, got: torch.Tensor, where: str) -> str | None:
    for name in ("dtype", "shape", "requires_grad", "device", "layout"):
        one, other = getattr(sent, name), getattr(got, name)
        if one != other:
            return f"{where}: {name} {one} arrived as {other}"
    if got.is_conj() or got.is_neg():
        return f"{where}: arrived as a lazy view"
    if sent.numel() == 0:
        return None
    one, other = (_bytes_of(value) for value in (sent, got))
    return None if torch.equal(one, other) else f"{where}: other bytes in {sent.dtype} arrived"


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """NaN is not equal to itself, its bytes are; -0.0 equals 0.0, and its bytes do not."""
    # A tensor of one element may count as contiguous whatever its stride is.
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return flat.copy_(tensor.detach().reshape(-1)).view(torch.uint8)


def _arrays_differ(sent: Any, got: Any, where: str) -> str | None:
    # NumPy itself turns what it pickles into this machine's byte order, unless it is contiguous.
    kinds = [value.dtype.newbyteorder("=") for value in (sent, got)]
    if kinds[0] != kinds[1] or sent.shape != got.shape:
        return f"{where}: {sent.dtype} {sent.shape} arrived as {got.dtype} {got.shape}"
    if sent.dtype.hasobject:
        return None if sent.tolist() == got.tolist() else f"{where}: other objects arrived"
    if not got.flags.writeable:
        return f"{where}: arrived read-only"
    one, other = (value.astype(kinds[0]).tobytes() for value in (sent, got))
    return None if one == other else f"{where}: other bytes arrived"
