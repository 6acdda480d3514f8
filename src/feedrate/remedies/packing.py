"""One record as bytes, and back: exactly the object that went in.

Records of plain Python (strings, numbers, lists, dicts with string keys) are MessagePack, which is
read faster than a pickle and holds no code; all others are pickled.
"""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import msgspec

_LEAST, _MOST = -(2**63), 2**64
_SCALARS = frozenset((str, float, bool, type(None), bytes))

_encode = msgspec.msgpack.Encoder().encode
unpack_plain = msgspec.msgpack.Decoder().decode


def pack(value: Any, position: Any) -> tuple[bytes, bool]:
    """Return the bytes of a record and whether they are a pickle.

    Args:
        value: the record.
        position: its index or key, for the error.

    Raises:
        TypeError: it cannot be packed.
    """
    # What cannot be told or encoded is left to pickle: a string that is no Unicode, a list that
    # holds itself.
    with contextlib.suppress(UnicodeEncodeError, OverflowError, RecursionError):
        if _is_plain(value):
            return _encode(value), False
    try:
        return pickle.dumps(value, 5), True
    except Exception as error:
        raise TypeError(
            f"item {position!r} of type {type(value).__name__} cannot be packed "
            f"({type(error).__name__}: {error}): keep what makes it (a path, numbers), not itself"
        ) from error


def unpack(data: memoryview, pickled: bool) -> Any:
    """Return the record."""
    return pickle.loads(data) if pickled else unpack_plain(data)


def _is_plain(value: Any) -> bool:
    """Tell whether a record comes back from MessagePack as it was, down to every type."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is int:
        return bool(_LEAST <= value < _MOST)
    if kind is list:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(type(key) is str for key in value) and all(map(_is_plain, value.values()))
    return False
