"""Whether a worker that is spawned could be given the loader's parts, and what they weigh."""

from __future__ import annotations

import multiprocessing.context
import time
from collections.abc import Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

from feedrate.measure.blame import one_line, text_of
from feedrate.measure.examined import Pickled, Unpicklable
from feedrate.measure.examining.walking import members, name_of

_DEEPEST = 8
_SEARCH_SECONDS = 2.0
_MOST_FAULTS = 5


class _Sink:
    """A file that counts what is written to it."""

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, data: Any) -> int:
        self.bytes += len(data)
        return len(data)


class _Spawning:
    """Stands for the process that is being started: locks and queues are pickled for one only."""

    DupFd = int

    @staticmethod
    def duplicate_for_child(descriptor: int) -> int:
        return descriptor


def try_pickling(parts: Iterable[tuple[str, Any]]) -> Pickled:
    """Pickle (name, thing) pairs as a start by spawn does; find what in them cannot be.

    To be called in a probe: it moves tensors to shared memory, as a start does.
    """
    started = time.perf_counter()
    total = 0
    failing: list[tuple[str, Any]] = []
    for name, part in parts:
        size = _size(part)
        if isinstance(size, int):
            total += size
        else:
            failing.append((name, part))
    seconds = time.perf_counter() - started
    faults: list[Unpicklable] = []
    end = time.perf_counter() + _SEARCH_SECONDS
    for name, part in failing:
        faults += _find(name, part, 0, end)
    return Pickled(
        bytes=None if failing else total, seconds=seconds, failed=tuple(faults[:_MOST_FAULTS])
    )


def _size(value: Any) -> int | Exception:
    sink = _Sink()
    set_spawning: Any = multiprocessing.context.set_spawning_popen
    set_spawning(_Spawning())
    try:
        ForkingPickler(sink).dump(value)
    except Exception as error:
        return error
    except RecursionError as error:
        return error
    finally:
        set_spawning(None)
    return sink.bytes


def _find(path: str, value: Any, depth: int, end: float) -> Iterator[Unpicklable]:
    """Yield the innermost things below one that fails that fail themselves."""
    inner = False
    if depth < _DEEPEST:
        for below, each in _parts_of(path, value):
            if time.perf_counter() > end:
                break
            if isinstance(_size(each), Exception):
                inner = True
                yield from _find(below, each, depth + 1, end)
    if not inner:
        error = _size(value)
        if isinstance(error, Exception):
            yield Unpicklable(
                path=path,
                kind=_kind(value),
                error=one_line(f"{type(error).__name__}: {text_of(error)}")[:200],
            )


def _parts_of(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is pickled with a thing: its attributes, and not a function's variables."""
    if callable(value) and hasattr(value, "__code__"):
        return
    yield from members(path, value)


def _kind(value: Any) -> str:
    name = getattr(value, "__name__", "")
    if name == "<lambda>":
        return "a lambda"
    if hasattr(value, "__code__"):
        return f"the function {value.__qualname__}"
    return name_of(type(value))
