"""Memory that C code keeps: memray tells which line of the user's called what.

memray is an extra. It sees what goes through the C library's allocation functions, from libraries
without any Python object too, and costs several times the time of each allocation; so it runs in a
pass of its own, in the one process whose growth no Python object explains.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from feedrate.analysis.causes import Place
from feedrate.measure.causes.counting import Counting
from feedrate.measure.causes.inspection import Inspection
from feedrate.measure.causes.lines import Lines
from feedrate.measure.scratch import make_scratch
from feedrate.memory_records import Cause, GrowthCause

SECONDS = 5.0
_UNKNOWN = "<unknown>"
_EACH_CALL = 0.5
"""What is kept for good comes again with every call or so."""
_MUCH = 0.2
"""Less than this share of what the first brings is not told."""
_MOST = 3
_LEAST = 16 * 1024
_PYTHONS = ("Py", "_Py")
_SOURCES = ("Objects/", "Python/", "Modules/", "./Include/")
"""Where the interpreter's own functions are, as its symbols say."""
_PLAIN = ("operator new", "malloc", "calloc", "realloc", "__GI___libc", "__libc", "posix_memalign")
"""Functions that only hand memory on; who asked for it says more."""

Frame = tuple[str, str, int]
"""A function, its file and the line."""


class Record(Protocol):
    """What memray tells of allocations at one place that were not freed."""

    size: int
    n_allocations: int

    def stack_trace(self) -> Sequence[Frame]:
        """Return Python's frames, the innermost first."""

    def native_stack_trace(self) -> Sequence[Frame]:
        """Return C's frames, the innermost first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory that C code has and nobody freed: by which function, called from which line.

    ``place`` is ``None`` where no Python called it, as in a library's own thread.
    """

    place: Place | None
    function: str
    count: int
    size: int


def is_installed() -> bool:
    """Tell whether memray can be imported."""
    return importlib.util.find_spec("memray") is not None


def kept_by_c(records: Iterable[Record], lines: Lines, calls: int) -> tuple[Kept, ...]:
    """Return what C code keeps more of with each call, what takes most first.

    What the interpreter itself allocates is left out: those are Python objects, of which the other
    pass tells more.
    """
    found: dict[tuple[Place | None, str], list[int]] = {}
    for record in records:
        native = record.native_stack_trace()
        frames = tuple((file, line) for _, file, line in record.stack_trace())
        place = lines.place_of(tracemalloc.Traceback(frames)) if frames else None
        is_ours = bool(frames) and place is None
        if is_ours or _is_pythons(native):
            continue
        sums = found.setdefault((place, _function(native)), [0, 0])
        sums[0] += record.n_allocations
        sums[1] += record.size
    kept = [
        Kept(place=place, function=function, count=count, size=size)
        for (place, function), (count, size) in found.items()
        if count >= _EACH_CALL * calls and size >= _LEAST
    ]
    kept.sort(key=lambda each: -each.size)
    return tuple(each for each in kept[:_MOST] if each.size >= _MUCH * kept[0].size)


def _is_pythons(native: Sequence[Frame]) -> bool:
    name, file, _ = next((each for each in native if each[0] != _UNKNOWN), ("", "", 0))
    return name.startswith(_PYTHONS) or file.startswith(_SOURCES)


def _function(native: Sequence[Frame]) -> str:
    names = [name for name, _, _ in native if name != _UNKNOWN]
    named = next((name for name in names if not name.startswith(_PLAIN)), None)
    if named is not None and not named.startswith("ffi_call"):
        return named.removeprefix("__GI_").lstrip("_")
    return names[0] if names else "a function without a name"


class NativeInspector:
    """Watches one process with memray while its loop goes on; used as an `Inspector` is."""

    def __init__(
        self,
        process: str,
        seconds: float,
        *,
        epoch_items: float | None = None,
        folder: Path | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Watch; memray's records are a file in ``folder`` meanwhile, or in one of their own."""
        self.is_over = False
        self.inspection = Inspection(process=process, growth=_growth(process, 0), is_complete=False)
        self._seconds = min(seconds, SECONDS)
        self._seen = Counting(epoch_items)
        self._clock = clock
        self._folder = folder
        self._records: Path | None = None
        self._tracker: Any = None
        self._started = 0.0

    def passed(self, items: int) -> None:
        """Take note that so many more items were passed; begin with the second call."""
        if self.is_over:
            return
        if self._tracker is None:
            self._start()
            return
        self._seen.passed(items)
        if self._clock() - self._started >= self._seconds:
            self._end(is_complete=True)

    def epoch_ended(self) -> None:
        """Take note that an epoch has ended."""
        if self.is_over or self._tracker is None:
            return
        self._seen.epoch_ended()

    def close(self) -> None:
        """End the pass wherever it is; `inspection` has what was seen until then."""
        if self._tracker is not None and not self.is_over:
            self._end(is_complete=False)
        self.is_over = True

    def _start(self) -> None:
        memray = importlib.import_module("memray")
        folder = self._folder or make_scratch("memray")
        self._records = folder / f"{os.getpid()}.allocations"
        self._tracker = memray.Tracker(self._records, native_traces=True)
        # memray leaves out as many outer frames as there are where it is started: in a thread of
        # its own there are none, and the user's lines are all told
        start = threading.Thread(target=self._tracker.__enter__)
        start.start()
        start.join()
        self._started = self._clock()

    def _end(self, *, is_complete: bool) -> None:
        memray = importlib.import_module("memray")
        self.is_over = True
        self._tracker.__exit__(None, None, None)
        assert self._records is not None
        seconds = self._clock() - self._started
        try:
            with contextlib.closing(memray.FileReader(self._records)) as reader:
                records = reader.get_leaked_allocation_records(merge_threads=True)
                kept = kept_by_c(records, Lines(), self._seen.calls)
        finally:
            self._records.unlink(missing_ok=True)
            if self._folder is None:
                self._records.parent.rmdir()
        self.inspection = self._told(kept, seconds, is_complete=is_complete)

    def _told(self, kept: Sequence[Kept], seconds: float, *, is_complete: bool) -> Inspection:
        process = self.inspection.process
        an_epoch = self._seen.epoch_items / max(1, self._seen.items)
        objects = tuple(
            Cause(
                process=process,
                file=each.place[0] if each.place is not None else None,
                line=each.place[1] if each.place is not None else None,
                type_name=f"C memory ({each.function})",
                count=each.count * an_epoch,
                bytes_per_epoch=each.size * an_epoch,
            )
            for each in kept
        )
        return Inspection(
            process=process,
            growth=_growth(process, sum(each.size for each in kept)),
            objects=objects,
            items=self._seen.items,
            epoch_items=self._seen.epoch_items,
            sights=1,
            seconds=seconds,
            is_complete=is_complete,
        )


def _growth(process: str, grown: int) -> GrowthCause:
    return GrowthCause(process="main" if process == "main" else "worker", grown=grown)
