"""The Python objects that a dataset holds: what forked workers copy of it by reading."""

from __future__ import annotations

import gc
import sys
import time
import types
from collections.abc import Mapping
from typing import Any

from feedrate.measure.examined import Objects
from feedrate.measure.examining.walking import attributes

_SECONDS = 2.0
_MOST = 4_000_000
_LONG, _SAMPLE = 20_000, 2_000
_PAGE = 4096
"""Of a long text or array only the page with its count of references is written to."""
_NOT_OURS = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.CodeType,
    types.FrameType,
)


def count_objects(
    dataset: Any, also: Mapping[str, Any] | None = None, seconds: float = _SECONDS
) -> Objects:
    """Return how many Python objects are reachable from a dataset, and their size.

    And from what else is named ``also``. It ends after about so many ``seconds``. The account of
    what was seen takes memory itself: to be called in a probe, or before workers are started.
    """
    end = time.perf_counter() + seconds
    seen: set[int] = {id(dataset)}
    count = size = 0.0
    whole = True
    largest, largest_bytes = "", 0.0
    named = {f"dataset.{name}": value for name, value in attributes(dataset).items()}
    for name, value in (named | dict(also or {})).items():
        if not whole:
            break
        more, bytes_, whole = _below(value, seen, end)
        count, size = count + more, size + bytes_
        if bytes_ > largest_bytes:
            largest, largest_bytes = name, bytes_
    return Objects(
        count=round(count),
        bytes=round(size),
        whole=whole,
        path=largest,
        path_bytes=round(largest_bytes),
    )


def _below(root: Any, seen: set[int], end: float) -> tuple[float, float, bool]:
    """Return how many objects there are below one that were not seen, and their size.

    Of a long list, tuple or dict some members stand for all: they are of one kind.
    """
    count = size = 0.0
    waiting: list[tuple[Any, float]] = [(root, 1.0)]
    looked = 0
    while waiting:
        value, times = waiting.pop()
        if id(value) in seen or isinstance(value, _NOT_OURS):
            continue
        seen.add(id(value))
        looked += 1
        count += times
        own = sys.getsizeof(value)
        size += times * (min(own, _PAGE) if _is_buffer(value) else own)
        inner = _members(value)
        if len(inner) > _LONG:
            stride = len(inner) // _SAMPLE
            times *= len(inner) / len(inner[::stride])
            inner = inner[::stride]
        waiting.extend((each, times) for each in inner)
        if looked % 4096 == 0 and (time.perf_counter() > end or looked > _MOST):
            return count, size, False
    return count, size, True


def _members(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return value
    if gc.is_tracked(value) or isinstance(value, dict):
        return gc.get_referents(value)
    if getattr(getattr(value, "dtype", None), "kind", "") == "O":
        return value.ravel().tolist()  # NumPy's arrays are not seen by the collector
    return ()


def _is_buffer(value: Any) -> bool:
    return isinstance(value, str | bytes | bytearray) or hasattr(value, "__array_interface__")
