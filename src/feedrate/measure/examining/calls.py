"""Calls that are made for each item and could be made for many: found by profiling some items."""

from __future__ import annotations

import cProfile
import itertools
import pstats
import time
from collections.abc import Iterable
from typing import Any

from feedrate.measure.examined import Request

_PROFILED = 24
_BATCH = 32
_REQUESTS = (
    "execute", "executemany", "fetchone", "fetchall", "recv", "recv_into", "read_into", "urlopen",
    "getaddrinfo", "connect", "request", "send",
)  # fmt: skip
"""Built-in functions that ask something else for an answer: one call could bring many."""
_REQUESTERS = ("sqlite3", "psycopg", "pymysql", "socket", "ssl", "requests", "redis", "boto", "h5d")


def find_request(dataset: Any, indices: Iterable[Any]) -> Request | None:
    """Return the built-in function that takes most of an item's time, if it asks for something."""
    if hasattr(type(dataset), "__getitems__"):
        return None
    chosen = list(itertools.islice(indices, _PROFILED))
    profile = cProfile.Profile()
    started = time.perf_counter()
    try:
        profile.enable()
        for index in chosen:
            dataset[index]
    except Exception:
        return None
    finally:
        profile.disable()
    spent = time.perf_counter() - started
    rows: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, name), (_, calls, own, _, _) in sorted(rows.items(), key=lambda row: -row[1][2]):
        words = name.strip("<>").replace("built-in method ", "").replace("method ", "")
        function = words.split("'")[1] if "'" in words else words
        asks = function in _REQUESTS or any(each in words for each in _REQUESTERS)
        if file == "~" and asks and calls >= len(chosen):
            return Request(name=words, share=min(1.0, own / spent), per_item=own / len(chosen))
        break  # only what takes most
    return None


def hidden_batch(dataset: Any, indices: Iterable[Any]) -> tuple[str, float] | None:
    """Return what an item takes by an inner dataset's ``__getitems__`` that the outer one hides."""
    if hasattr(dataset, "__getitems__"):
        return None
    inner, path = getattr(dataset, "dataset", None), "dataset.dataset"
    while inner is not None and not hasattr(inner, "__getitems__"):
        inner, path = getattr(inner, "dataset", None), f"{path}.dataset"
    if inner is None:
        return None
    chosen = list(itertools.islice(indices, _BATCH))
    try:
        then = time.perf_counter()
        inner.__getitems__(chosen)
        return path, (time.perf_counter() - then) / len(chosen)
    except Exception:
        return None
