"""`SharedDict`: a dict whose keys and values all processes read from the same memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from numbers import Number
from typing import Any, TypeVar

import numpy as np

from feedrate.remedies.shared_bytes import SharedBytes
from feedrate.remedies.shared_list import SharedList

K = TypeVar("K")
V = TypeVar("V")


class SharedDict(Mapping[K, V]):
    """A dict that cannot be changed, packed into shared memory; see `SharedList`.

    Args:
        items: a mapping, or pairs of key and value. Keys are strings, bytes, numbers, None, or
            tuples of these; values any objects that can be pickled. Order is kept, and a key is
            found by whatever finds it in a dict: 5 by 5.0 or by ``np.int64(5)``.

    Raises:
        TypeError: a key is of another kind, or a value cannot be packed.
    """

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        whole = dict(items)
        codes = [_code(key) for key in whole]
        self._keys: SharedList[K] = SharedList(whole)
        self._values: SharedList[V] = SharedList(whole.values())
        self._slots = SharedBytes([_table(codes)])
        self._view()

    def _view(self) -> None:
        self._table = np.frombuffer(self._slots.data, np.uint32)
        self._mask = len(self._table) - 1

    def _find(self, key: Any) -> int:
        """Return a key's place.

        Raises:
            KeyError: there is none.
        """
        try:
            code = _code(key)
        except TypeError:
            hash(key)  # what cannot be a key at all raises as in a dict
            raise KeyError(key) from None
        kind = type(key)
        slot = zlib.crc32(code) & self._mask
        while (place := int(self._table[slot])) != 0:
            stored = self._keys[place - 1]
            # A dict compares keys of one hash only: comparing others may warn, as NumPy's do.
            # Those of one type are compared at once, which is faster than making a code.
            if (type(stored) is kind or _code(stored) == code) and stored == key:
                return place - 1
            slot = (slot + 1) & self._mask
        raise KeyError(key)

    def __getitem__(self, key: K) -> V:
        return self._values[self._find(key)]

    def __contains__(self, key: object) -> bool:
        try:
            self._find(key)
        except KeyError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys)

    def __repr__(self) -> str:
        return f"SharedDict({len(self):,} records in shared memory)"

    def __reduce__(self) -> Any:
        return _from_shared, (self._keys, self._values, self._slots)


def _from_shared(
    keys: SharedList[Any], values: SharedList[Any], slots: SharedBytes
) -> SharedDict[Any, Any]:
    made: SharedDict[Any, Any] = SharedDict.__new__(SharedDict)
    made._keys, made._values, made._slots = keys, values, slots
    made._view()
    return made


def _code(key: Any) -> bytes:
    """Return bytes that are the same for equal keys, in every process; a text's hash is not.

    Raises:
        TypeError: the key is of a kind for which that cannot be said.
    """
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")  # a path may hold what is no Unicode
    kind = type(key)
    if kind is int or kind is float:
        return _code_of_number(key)
    if isinstance(key, bytes):
        return b"B" + key
    if key is None:
        return b"N"
    if isinstance(key, tuple):
        return b"T" + b"\0".join(map(_code, key))
    # A span of time is a number to NumPy, and its hash another one in each process.
    if isinstance(key, Number | np.bool_) and not isinstance(key, np.timedelta64):
        return _code_of_number(key)
    raise TypeError(
        f"a SharedDict's keys are strings, bytes, numbers, None or tuples of these, and not {key!r}"
    )


def _code_of_number(number: Any) -> bytes:
    # Python makes the hashes of equal numbers equal whatever their types, and seeds none of them.
    return hash(number).to_bytes(8, "little", signed=True)


def _table(codes: list[bytes]) -> memoryview:
    """Return an open hash table, half full at most, of places from 1 on; 0 is an empty slot."""
    capacity = 1 << max(3, (2 * len(codes)).bit_length())
    table = np.zeros(capacity, np.uint32)
    mask = capacity - 1
    for place, code in enumerate(codes, 1):
        slot = zlib.crc32(code) & mask
        while table[slot]:
            slot = (slot + 1) & mask
        table[slot] = place
    return table.data.cast("B")
