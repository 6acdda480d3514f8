"""Reading items one by one, in a probe: their time, what they are made of, and what they keep."""

from __future__ import annotations

import cProfile
import gc
import itertools
import math
import os
import pstats
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import DataLoader

from feedrate.measure.examined import Growth, Items, OddItem, Request
from feedrate.measure.examining.indices import choose, is_plain
from feedrate.measure.examining.leaves import build_of, describe
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.examining.walking import name_of, walk
from feedrate.measure.target import is_iterable_dataset

_MOST = 256
_GROWS = 2048
"""Bytes that an item keeps at least where reading items grows memory."""
_MOST_KEPT = 256 << 20
_PROFILED = 24
_BATCH = 32
_REQUESTS = (
    "execute", "executemany", "fetchone", "fetchall", "recv", "recv_into", "read_into", "urlopen",
    "getaddrinfo", "connect", "request", "send",
)  # fmt: skip
"""Built-in functions that ask something else for an answer: one call could bring many."""
_REQUESTERS = ("sqlite3", "psycopg", "pymysql", "socket", "ssl", "requests", "redis", "boto", "h5d")


def read_items(loader: DataLoader[Any], seconds: float, tell: Tell, place: Place) -> None:
    """Read items for so long, and tell `Items`, then `Growth` where memory grows.

    ``place`` is the index of the item being read; an error of an item passes through.
    """
    end = time.perf_counter() + seconds
    dataset = loader.dataset
    streams = is_iterable_dataset(loader)
    indices: Iterable[Any] = itertools.count() if streams else choose(loader, _MOST)
    source = iter(dataset) if streams else None
    gc.collect()
    before = _State.of(dataset)
    times: list[tuple[float, Any]] = []
    cpu = 0.0
    beyond = ""
    first: Any = None
    slowest: Any = None
    odd: OddItem | None = None
    parts: tuple[Any, ...] = ()
    last = None if streams or not is_plain(loader) else len(dataset) - 1  # type: ignore[arg-type]
    for number, index in enumerate(indices):
        place.at = index if isinstance(index, int) else number
        cpu_then, then = time.process_time(), time.perf_counter()
        try:
            item = next(source) if source is not None else dataset[index]
        except StopIteration:
            break
        except IndexError:
            beyond = _missing(dataset, last) if number and last is not None else ""
            if not beyond:
                raise
            break
        now = time.perf_counter()
        cpu += time.process_time() - cpu_then
        if not times or now - then > max(times)[0]:
            slowest = index
        times.append((now - then, place.at))
        if first is None:
            first, parts = build_of(item, "item"), describe(item, "item")
        elif odd is None and len(times) <= _MOST:
            odd = _odd(first, build_of(item, "item"), place.at)
        if now > end or (streams and len(times) >= _MOST):
            break
    if not times:
        return
    seen = _State.of(dataset)
    left = end - time.perf_counter()
    request = None if streams or left <= 0 else _request(dataset, indices)
    batched = _hidden_batch(dataset, indices) if not streams and left > 0 else None
    ordered = sorted(each for each, _ in times)
    longest, worst = max(times, key=lambda pair: pair[0])
    tell(
        Items(
            count=len(times),
            median=ordered[len(ordered) // 2],
            p99=ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)],
            longest=longest,
            worst=worst,
            cpu_share=cpu / max(sum(ordered), 1e-9),
            longest_again=longest if streams else _again(dataset, slowest),
            leaves=parts,
            odd=odd,
            descriptors=seen.descriptors - before.descriptors,
            beyond=beyond,
            request=request,
            batched_seconds=batched[1] if batched else None,
            batched_by=batched[0] if batched else "",
        )
    )
    del item
    if not streams:
        _tell_growth(loader, before, seen, times, seconds, tell, place)


def _missing(dataset: Any, last: int) -> str:
    """Return the error of the last item that ``len()`` promises, "" where it is there."""
    try:
        dataset[last]
    except IndexError as error:
        return f"IndexError: {error}"
    return ""


def _again(dataset: Any, index: Any) -> float:
    """Return the seconds of an item that is read again, of three times the shortest."""
    taken = []
    for _ in range(3):
        then = time.perf_counter()
        dataset[index]
        taken.append(time.perf_counter() - then)
    return min(taken)


def _odd(first: list[tuple[str, str]], other: list[tuple[str, str]], index: int) -> OddItem | None:
    if len(first) != len(other):
        parts = ("1 part" if len(x) == 1 else f"{len(x)} parts" for x in (first, other))
        was, now = parts
        return OddItem(index=index, path="item", first=was, found=now)
    for (path, was), (_, now) in zip(first, other, strict=True):
        if was != now:
            return OddItem(index=index, path=path, first=was, found=now)
    return None


class _State:
    """What reading items may change: memory, descriptors, and the sizes of containers.

    ``sizes`` has for each container how many entries it has, and the bytes of one.
    """

    def __init__(self, memory: int, descriptors: int, sizes: dict[str, tuple[int, int]]) -> None:
        self.memory, self.descriptors, self.sizes = memory, descriptors, sizes

    @classmethod
    def of(cls, dataset: Any) -> _State:
        sizes = {}
        for path, value in walk(dataset, "dataset", 0.2):
            if isinstance(value, dict | list | set) or name_of(type(value)).endswith("deque"):
                sizes[path] = len(value), _weight(value)
        for name in dir(type(dataset)):
            info = getattr(getattr(type(dataset), name, None), "cache_info", None)
            if callable(info):
                sizes[f"dataset.{name} (its cache)"] = int(info().currsize), 1
        return cls(anonymous_bytes(), _descriptors(), sizes)

    def grown(self, before: _State) -> tuple[str, int, int]:
        """Return the container that grew by most bytes, by how many entries, and all it has."""
        more = {
            path: (count - before.sizes.get(path, (0, 0))[0], weight)
            for path, (count, weight) in self.sizes.items()
        }
        path = max(more, key=lambda each: math.prod(more[each]), default="")
        if not path or more[path][0] <= 0:
            return "", 0, 0
        return path, more[path][0], self.sizes[path][0]


def _weight(container: Any) -> int:
    """Return the bytes of a container's last entry, about."""
    if isinstance(container, set) or not container:
        return 1
    last = next(reversed(container.values())) if isinstance(container, dict) else container[-1]
    return max(sys.getsizeof(last), int(getattr(last, "nbytes", 0)))


def anonymous_bytes() -> int:
    """Return the anonymous memory of this process; 0 where it is not told."""
    try:
        with open("/proc/self/status") as status:  # noqa: PTH123
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        return 0


def _tell_growth(
    loader: DataLoader[Any],
    before: _State,
    seen: _State,
    times: list[tuple[float, Any]],
    seconds: float,
    tell: Tell,
    place: Place,
) -> None:
    """Where a container grew with the items, read on until it stops or all are read."""
    path, more, _ = seen.grown(before)
    kept = seen.memory - before.memory
    if more < 0.5 * len(times) and kept < 16 * _GROWS * len(times):
        return
    if kept < _GROWS * len(times):
        return
    dataset = loader.dataset
    read = {index for _, index in times}
    length = len(dataset) if is_plain(loader) else len(read)  # type: ignore[arg-type]
    curve = [(len(read), kept)]
    base = anonymous_bytes() - kept  # what was read since then is not counted
    end = time.perf_counter() + seconds
    for index in _unread(length, read) if is_plain(loader) else ():
        place.at = index
        dataset[index]
        read.add(index)
        if len(read) % 16 == 0:
            curve.append((len(read), anonymous_bytes() - base))
            if time.perf_counter() > end or curve[-1][1] > _MOST_KEPT:
                break
    after = _State.of(dataset)
    path, _, entries = after.grown(before)
    total = after.memory - base
    half = next((at for at in curve if at[0] >= len(read) / 2), curve[0])
    again = []
    for _, index in times[-16:]:
        then = time.perf_counter()
        dataset[index]
        again.append(time.perf_counter() - then)
    first = sorted(seconds for seconds, _ in times)
    tell(
        Growth(
            items=len(read),
            bytes=total,
            early=half[1] / half[0],
            late=(total - half[1]) / max(1, len(read) - half[0]),
            path=path,
            entries=entries,
            all_read=len(read) >= length,
            first=first[len(first) // 2],
            again=sorted(again)[len(again) // 2],
        )
    )


def _unread(length: int, read: set[Any]) -> Iterator[int]:
    return (index for index in range(length) if index not in read)


def _request(dataset: Any, indices: Iterable[Any]) -> Request | None:
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


def _hidden_batch(dataset: Any, indices: Iterable[Any]) -> tuple[str, float] | None:
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
