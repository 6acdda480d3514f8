"""What reading items keeps: memory, open descriptors, and entries of containers."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from feedrate.measure.examined import LEAST_ELSEWHERE, LEAST_KEPT, Growth
from feedrate.measure.examining.indices import is_plain
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.examining.walking import name_of, walk

_MOST_KEPT = 256 << 20
_AGAIN_SECONDS = 0.5
"""What reading items a second time may take."""


class State:
    """What reading items may change: memory, descriptors, and the sizes of containers.

    ``sizes`` has for each container how many entries it has, and the bytes of one.
    """

    def __init__(self, memory: int, descriptors: int, sizes: dict[str, tuple[int, int]]) -> None:
        self.memory, self.descriptors, self.sizes = memory, descriptors, sizes

    @classmethod
    def of(cls, dataset: Any) -> State:
        """Return what there is now."""
        sizes = {}
        for path, value in walk(dataset, "dataset", 0.2):
            if isinstance(value, dict | list | set) or name_of(type(value)).endswith("deque"):
                sizes[path] = len(value), _weight(value)
        for name in dir(type(dataset)):
            info = getattr(getattr(type(dataset), name, None), "cache_info", None)
            if callable(info):
                sizes[f"dataset.{name} (its cache)"] = int(info().currsize), 1
        return cls(anonymous_bytes(), _descriptors(), sizes)

    def grown(self, before: State) -> tuple[str, int, int]:
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


def tell_growth(
    loader: DataLoader[Any],
    before: State,
    seen: State,
    times: list[tuple[float, Any]],
    seconds: float,
    tell: Tell,
    place: Place,
) -> None:
    """Where a container grew with the items, read on until it stops or all are read."""
    path, more, _ = seen.grown(before)
    kept = seen.memory - before.memory
    if more < 0.5 * len(times) and kept < LEAST_ELSEWHERE * len(times):
        return
    if kept < LEAST_KEPT * len(times):
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
    after = State.of(dataset)
    path, _, entries = after.grown(before)
    total = after.memory - base
    half = next((at for at in curve if at[0] >= len(read) / 2), curve[0])
    again: list[float] = []
    for _, index in times[-16:]:
        then = time.perf_counter()
        dataset[index]
        again.append(time.perf_counter() - then)
        if sum(again) > _AGAIN_SECONDS:
            break
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
