"""Reading items one by one, in a probe: their time, and what they are made of."""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader

from feedrate.measure.examined import Items, Leaf, OddItem
from feedrate.measure.examining.calls import find_request, hidden_batch
from feedrate.measure.examining.collating import time_collate
from feedrate.measure.examining.indices import choose, is_plain
from feedrate.measure.examining.keeping import State, tell_growth
from feedrate.measure.examining.leaves import build_of, describe
from feedrate.measure.examining.opened import OpenedFiles
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.target import is_iterable_dataset

_MOST = 256
_MOST_CPUS = 64.0
_LONG = 0.5
_FEW, _FIRST, _FIRST_SECONDS = 16, 64, 2.0
"""So many items are worth more time, and more of them where they are quick: on a busy machine even
these may come late."""
_QUICK = 0.02


def read_items(loader: DataLoader[Any], seconds: float, tell: Tell, place: Place) -> None:
    """Read items for so long, and tell `Items`, then `Growth` where memory grows.

    ``place`` is the index of the item being read; an error of an item passes through.
    """
    dataset: Any = loader.dataset
    streams = is_iterable_dataset(loader)
    indices: Iterable[Any] = itertools.count() if streams else choose(loader, _MOST)
    gc.collect()
    opened = OpenedFiles()
    before = State.of(dataset)
    end = time.perf_counter() + seconds
    reader = _Reader(loader, place)
    reader.read(indices, end)
    if not reader.times:
        return
    after = State.of(dataset)
    in_time = not streams and time.perf_counter() < end
    files = opened.found()
    batched = hidden_batch(dataset, indices) if in_time else None
    collating = time_collate(loader, indices, reader.median()) if in_time else None
    tell(
        reader.items(
            collate_seconds=collating.seconds if collating else None,
            collate_default=collating.default if collating else None,
            collated=collating.items if collating else 0,
            files=files,
            descriptors=after.descriptors - before.descriptors,
            request=find_request(dataset, indices) if in_time else None,
            batched_seconds=batched[1] if batched else None,
            batched_by=batched[0] if batched else "",
        )
    )
    if not streams:
        tell_growth(loader, before, after, reader.times, seconds, tell, place)


class _Reader:
    """Reads items and keeps account of them."""

    def __init__(self, loader: DataLoader[Any], place: Place) -> None:
        self._dataset: Any = loader.dataset
        self._streams = is_iterable_dataset(loader)
        self._source = iter(self._dataset) if self._streams else None
        plain = not self._streams and is_plain(loader)
        length: Any = self._dataset
        self._last = len(length) - 1 if plain else None
        self._place = place
        self._cpu = self._own = self._queued = self._looking = 0.0
        self._beyond = ""
        self._first: list[tuple[str, str]] | None = None
        self._leaves: tuple[Leaf, ...] = ()
        self._odd: OddItem | None = None
        self._slowest: Any = None
        self.times: list[tuple[float, int]] = []

    def read(self, indices: Iterable[Any], end: float) -> None:
        """Read the items until there are no more or the time is up."""
        queued, cpu, own = _queued_seconds(), time.process_time(), time.thread_time()
        for number, index in enumerate(indices):
            self._place.at = index if isinstance(index, int) else number
            then = time.perf_counter()
            try:
                item = self._dataset[index] if self._source is None else next(self._source)
            except StopIteration:
                break
            except IndexError:
                if number and self._last is not None:
                    self._beyond = _missing(self._dataset, self._last)
                if not self._beyond:
                    raise
                break
            now = time.perf_counter()
            self._took(item, index, now - then)
            least = _FIRST if now - then < _QUICK else _FEW
            late = now > end + (_FIRST_SECONDS if len(self.times) < least else 0.0)
            if late or (self._streams and len(self.times) >= _MOST):
                break
        self._queued = _queued_seconds() - queued
        self._cpu = time.process_time() - cpu
        self._own = time.thread_time() - own

    def _took(self, item: Any, index: Any, seconds: float) -> None:
        if not self.times or seconds > max(self.times)[0]:
            self._slowest = index
        self.times.append((seconds, self._place.at))
        before = time.process_time()
        if self._first is None:
            self._first, self._leaves = build_of(item, "item"), describe(item, "item")
        elif self._odd is None:
            self._odd = _odd(self._first, build_of(item, "item"), self._place.at)
        self._looking += time.process_time() - before

    def median(self) -> float:
        """Return the seconds that half of the items take less than."""
        ordered = sorted(each for each, _ in self.times)
        return ordered[len(ordered) // 2]

    def items(self, **further: Any) -> Items:
        """Return the figures; what others found is taken along."""
        ordered = sorted(each for each, _ in self.times)
        longest, worst = max(self.times, key=lambda pair: pair[0])
        cpu = max(0.0, self._cpu - self._looking)
        ready = sum(ordered) - self._queued  # the rest of the time others had the CPU
        return Items(
            count=len(ordered),
            median=self.median(),
            p99=ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)],
            longest=longest,
            worst=worst,
            cpu_share=cpu / max(ready, cpu / _MOST_CPUS, 1e-9),
            cpu_threads=max(1.0, self._cpu / max(self._own, 1e-9)),
            longest_again=self._again(longest),
            leaves=self._leaves,
            odd=self._odd,
            beyond=self._beyond,
            **further,
        )

    def _again(self, longest: float) -> float:
        """Return what the slowest item takes again, of a few times the least.

        What cannot be read again, or takes too long for it, is as slow as it was.
        """
        taken = [longest]
        for _ in range(3 if longest < _LONG and not self._streams else 0):
            then = time.perf_counter()
            self._dataset[self._slowest]
            taken.append(time.perf_counter() - then)
        return min(taken)


def _missing(dataset: Any, last: int) -> str:
    """Return the error of the last item that ``len()`` promises, "" where it is there."""
    try:
        dataset[last]
    except IndexError as error:
        return f"IndexError: {error}"
    return ""


def _odd(first: list[tuple[str, str]], other: list[tuple[str, str]], index: int) -> OddItem | None:
    if len(first) != len(other):
        parts = ("1 part" if len(x) == 1 else f"{len(x)} parts" for x in (first, other))
        was, now = parts
        return OddItem(index=index, path="item", first=was, found=now)
    for (path, was), (_, now) in zip(first, other, strict=True):
        if was != now:
            return OddItem(index=index, path=path, first=was, found=now)
    return None


def _queued_seconds() -> float:
    """Return how long this thread was ready to run and had no CPU, as other programs had it."""
    try:
        with open("/proc/self/schedstat") as stat:  # noqa: PTH123
            return int(stat.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
