"""How much memory a main process and its workers use, sampled at a bounded cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import psutil

from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.history import MemoryHistory
from feedrate.host.limits import ShmSpace, shm_space
from feedrate.host.processes import find_workers, is_alive
from feedrate.memory_records import MemoryReading, MemorySnapshot
from feedrate.records import Peaks

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class QuickLook:
    """What a look costs next to nothing to see: bytes in ``/dev/shm``, the main's descriptors."""

    shm_bytes: int | None
    main_descriptors: int | None


class Sampler(Protocol):
    """Looks at the memory of one run."""

    def sample(self, at: float) -> MemorySnapshot | None:
        """Return a whole look, ``None`` where the main process is gone."""

    def quick(self) -> QuickLook:
        """Return what can be seen at next to no cost."""


def parse_smaps_rollup(text: str) -> MemoryReading:
    """Return the sums of a ``/proc/PID/smaps_rollup`` text, in bytes (the file has kB).

    ``uss`` is what only this process maps: Private_Clean + Private_Dirty + Private_Hugetlb. Fields
    that the kernel does not write are ``None``.

    Raises:
        ValueError: there is no Rss line, as when the process ended before the read.
    """
    return _reading(parse_sizes(text))


def parse_sizes(text: str) -> dict[str, int]:
    """Return the ``Name: 123 kB`` lines of a text of ``/proc`` by name, in bytes."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "kB":
            sizes[parts[0].rstrip(":")] = int(parts[1]) * 1024
    return sizes


def memory_of(reader: ProcReader, pid: int) -> tuple[MemoryReading, int] | None:
    """Return the memory of one process and its bytes in swap; ``None`` where it is gone.

    psutil answers where there is no smaps_rollup, with RSS only.
    """
    sizes = parse_sizes(reader.read(f"/proc/{pid}/smaps_rollup") or "")
    if "Rss" in sizes:
        return _reading(sizes), sizes.get("Swap", 0)
    try:
        rss = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
    return (MemoryReading(rss=rss), 0) if rss else None  # 0: it ended and is not waited for yet


def _reading(sizes: dict[str, int]) -> MemoryReading:
    if "Rss" not in sizes:
        raise ValueError("smaps_rollup has no Rss line; the process has ended")
    private = [sizes.get(f"Private_{kind}") for kind in ("Clean", "Dirty")]
    return MemoryReading(
        rss=sizes["Rss"],
        pss=sizes.get("Pss"),
        uss=_added([*private, sizes.get("Private_Hugetlb", 0)]),
        anonymous=sizes.get("Anonymous"),
        private_dirty=sizes.get("Private_Dirty"),
        shared_dirty=sizes.get("Shared_Dirty"),
        pss_file=sizes.get("Pss_File"),
        pss_shmem=sizes.get("Pss_Shmem"),
    )


def add_readings(readings: Iterable[MemoryReading]) -> MemoryReading | None:
    """Return the readings of several processes added up, ``None`` for no process.

    A field that one of them lacks is ``None``. The sum of ``rss`` counts shared pages each time.
    """
    listed = list(readings)
    if not listed:
        return None
    sums = {
        name: _added(getattr(reading, name) for reading in listed)
        for name in MemoryReading.__struct_fields__
        if name != "rss"
    }
    return MemoryReading(rss=sum(reading.rss for reading in listed), **sums)


class TreeSampler:
    """Reads the memory and descriptors of a main process and its workers.

    Processes that start or end meanwhile are no error: they are in the snapshot or they are not.
    Workers are found as `feedrate.host.processes.find_workers` says; a program that a worker has
    started counts with them.

    Args:
        pid: the main process.
        reader: the source of ``/proc``; where it has no such file, psutil answers, with RSS only.
        shm: says what ``/dev/shm`` holds.
        originals: processes that the main process is a copy of. Each page that they still have in
            common is divided among them in a PSS; without the copying it would be the main's alone,
            and it is counted as that.
    """

    def __init__(
        self,
        pid: int,
        reader: ProcReader | None = None,
        shm: Callable[[], ShmSpace | None] = shm_space,
        originals: Sequence[int] = (),
    ) -> None:
        self._pid = pid
        self._originals = tuple(originals)
        self._reader = reader or SystemReader()
        self._shm = shm

    def sample(self, at: float) -> MemorySnapshot | None:
        """Return one look, stamped with the time ``at``; ``None`` where the main process is gone.

        It costs some milliseconds for each process, more where more memory is mapped.
        """
        main = self._memory(self._pid) if is_alive(self._reader, self._pid) else None
        if main is None:
            return None
        main = self._with_originals(main)
        readings: list[MemoryReading] = []
        descriptors: list[int] = []
        for worker in find_workers(self._reader, self._pid):
            reading = self._memory(worker)
            opened = self._descriptors(worker)
            if reading is not None:
                readings.append(reading)
            if reading is not None and opened is not None:
                descriptors.append(opened)
        look = self.quick()
        return MemorySnapshot(
            at=at,
            main=main,
            workers=add_readings(readings),
            worker_count=len(readings),
            shm_bytes=look.shm_bytes,
            main_descriptors=look.main_descriptors,
            worker_descriptors=sum(descriptors) if descriptors else None,
        )

    def quick(self) -> QuickLook:
        """Return the bytes in ``/dev/shm``, all programs' together, and the main's descriptors.

        It takes microseconds.
        """
        space = self._shm()
        return QuickLook(
            shm_bytes=None if space is None else space.total - space.free,
            main_descriptors=self._descriptors(self._pid),
        )

    def _with_originals(self, main: MemoryReading) -> MemoryReading:
        for pid in self._originals:
            theirs = self._memory(pid)
            if theirs is not None:
                parts = {
                    name: _added([getattr(main, name), getattr(theirs, name)])
                    for name in ("pss", "pss_file", "pss_shmem")
                }
                main = msgspec.structs.replace(main, **parts)
        return main

    def _memory(self, pid: int) -> MemoryReading | None:
        found = memory_of(self._reader, pid)
        return None if found is None else found[0]

    def _descriptors(self, pid: int) -> int | None:
        names = self._reader.listdir(f"/proc/{pid}/fd")
        if names is not None:
            return len(names)
        try:
            # getattr: Windows has none.
            return int(getattr(psutil.Process(pid), "num_fds")())  # noqa: B009
        except (AttributeError, psutil.Error):
            return None


class PacedSampler:
    """Samples when asked to, as long as that costs a small share of the time that has passed.

    The first sample is taken in any case; without ``force`` all together take at most ``duty`` ×
    the elapsed time after it. Two lie at least 20 times the cost of one apart, so that what time
    has been saved up is not spent in a burst. Quick looks
    take a fifth of the duty at most, which allows one at every poll unless polls come within some
    milliseconds, and count as time spent.

    Args:
        sampler: what takes the samples.
        clock: seconds from any origin; the time of the first call is the run's start.
        duty: the share of the elapsed time that may be spent.
    """

    _APART = 20
    _LOOKS = 0.2

    def __init__(
        self, sampler: Sampler, clock: Clock = time.perf_counter, duty: float = 0.005
    ) -> None:
        self._sampler = sampler
        self._clock = clock
        self._duty = duty
        self._start = clock()
        self._spent = 0.0
        self._cost = 0.0
        self._sampled_at = self._start
        self._look_cost = 0.0
        self._looked_at = self._start
        self._taken = False
        self._history = MemoryHistory()

    @property
    def spent_seconds(self) -> float:
        """The time that samples and looks have taken."""
        return self._spent

    def due(self) -> bool:
        """Whether the next sample fits into the time that may be spent."""
        now = self._clock()
        allowed = self._duty * (now - self._start)
        apart = not self._taken or now - self._sampled_at >= self._APART * self._cost
        return apart and self._spent + self._cost <= allowed

    def poll(self, force: bool = False) -> MemorySnapshot | None:
        """Take a quick look, and a sample if one is due or forced; return the sample.

        ``None`` where none was taken or the main process is gone.
        """
        if not (force or self.due()):
            self._look()
            return None
        begin = self._clock()
        snapshot = self._sampler.sample(begin - self._start)
        self._sampled_at = self._clock()
        self._cost = self._sampled_at - begin
        self._spent += self._cost
        self._taken = True
        if snapshot is not None:
            self._history.add(snapshot)
        return snapshot

    def snapshots(self) -> tuple[MemorySnapshot, ...]:
        """Return the samples, evenly thinned out where there are many, the latest among them."""
        return self._history.snapshots()

    def peaks(self, shm_before: int | None) -> Peaks | None:
        """Return the highest values of all samples and looks, ``None`` where no sample was taken.

        See `MemoryHistory.peaks`.
        """
        return self._history.peaks(shm_before)

    def _look(self) -> None:
        begin = self._clock()
        if (begin - self._looked_at) * self._duty * self._LOOKS < self._look_cost:
            return
        look = self._sampler.quick()
        self._looked_at = self._clock()
        self._look_cost = self._looked_at - begin
        self._spent += self._look_cost
        self._history.look(look.shm_bytes, look.main_descriptors)


def _added(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
