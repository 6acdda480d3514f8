"""One look from outside: the memory of a main process and of each of its workers, and the rest.

A whole look reads ``smaps_rollup``, for which the kernel goes through all pages of a process: some
milliseconds each. A quick one reads ``status``, whose counters tell what a process has allocated
(RssAnon) in microseconds. Some kernels tell those counters roughly only (6.2 to 6.15).
Whether this one does is checked at each whole look, of these kernels at the first look too, and
then every look is whole.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Collection

import msgspec

from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.limits import ShmSpace, memory_limits, shm_named, shm_space
from feedrate.host.memory import memory_of, parse_sizes
from feedrate.host.processes import find_workers, is_alive, parse_stat, program_of
from feedrate.memory_records import (
    DeviceReading,
    MemoryLook,
    MemoryReading,
    MemoryRoom,
    ProcessReading,
)

_SHM = "/dev/shm"
_RELEASE = "/proc/sys/kernel/osrelease"
_COUNTERS = ("VmSize", "VmRSS", "RssAnon", "RssShmem", "VmSwap")
_MOST_IDLE = 4
_EXACT = 64 * 1024
"""By so much the counters may differ from the pages, in a process that stands still."""


class MemoryEyes:
    """Reads everything that a `MemoryLook` holds, of one main process.

    Args:
        pid: the main process.
        reader: the source of ``/proc``; where it has no such file, psutil answers, with RSS only.
        shm: says what ``/dev/shm`` holds, and ``named`` what the user's files there take.
    """

    def __init__(
        self,
        pid: int,
        reader: ProcReader | None = None,
        shm: Callable[[], ShmSpace | None] = shm_space,
        named: Callable[[], int | None] = shm_named,
    ) -> None:
        self._pid = pid
        self._reader = reader or SystemReader()
        self._shm = shm
        self._named = named
        self._limits: dict[int, int | None] = {}
        self._programs: dict[int, str | None] = {}
        self._idle: set[int] = set()
        self._are_counters_exact = True
        self._is_checked = not _may_count_roughly(self._reader.read(_RELEASE) or "")

    def look(
        self,
        *,
        at: float,
        epoch: int,
        items: int,
        own: Collection[int] | None,
        device: DeviceReading | None = None,
        whole: bool = True,
        one_worker: bool = False,
    ) -> MemoryLook | None:
        """Return a look at phase 0, ``None`` where the main process is gone.

        ``own`` are the pids of the watched loader's workers; all are where it is ``None``. A
        ``whole`` look costs some milliseconds for each process, more where more memory is mapped;
        with ``one_worker`` it is whole for the first of the loader's workers alone. A look that is
        neither leaves the machine's figures out. Workers that are not the loader's are looked into
        once where they stay, a few of them.
        """
        whole = whole or not self._are_counters_exact
        is_there = is_alive(self._reader, self._pid)
        main = self._process(self._pid, whole or not self._is_checked) if is_there else None
        if main is None:
            return None
        self._is_checked = True
        whole = whole or not self._are_counters_exact
        known = frozenset(own or ())
        pids = find_workers(self._reader, self._pid, known)
        looked_into = [pid for pid in (pids if own is None else own) if pid in pids][:one_worker]
        stayed = self._take_note([pid for pid in pids if own is not None and pid not in own])
        looked_into += self._newly_idle(stayed)
        found = [
            reading
            for pid in pids
            if (reading := self._process(pid, whole or pid in looked_into)) is not None
        ]
        is_own = [own is None or reading.pid in own for reading in found]
        space = self._shm()
        files = self._reader.listdir(_SHM)
        is_deep = whole or bool(looked_into)
        machine = parse_sizes(self._reader.read("/proc/meminfo") or "") if is_deep else {}
        return MemoryLook(
            at=at,
            epoch=epoch,
            phase=0.0,
            items=items,
            main=main,
            workers=tuple(each for each, mine in zip(found, is_own, strict=True) if mine),
            others=tuple(
                msgspec.structs.replace(each, program=self._programs.get(each.pid))
                for each, mine in zip(found, is_own, strict=True)
                if not mine
            ),
            shm_bytes=None if space is None else space.total - space.free,
            shm_files=None if files is None else len(files),
            shm_named=self._named(),
            device=device,
            page_cache=machine.get("Cached"),
            available=machine.get("MemAvailable"),
        )

    def room(self, look: MemoryLook, device_free: int | None) -> MemoryRoom:
        """Return what is left at the moment of a look before something is refused."""
        memory = memory_limits(self._reader)
        space = self._shm()
        workers = [self._most_descriptors(worker.pid) for worker in look.workers]
        return MemoryRoom(
            memory=memory.free,
            memory_source=memory.source,
            shm=None if space is None else space.free,
            device=device_free,
            main_descriptors=self._most_descriptors(self._pid),
            worker_descriptors=min((each for each in workers if each is not None), default=None),
        )

    def _take_note(self, others: list[int]) -> frozenset[int]:
        """Learn what programs other processes run; return those that were there before."""
        known = self._programs
        self._programs = {
            pid: known[pid] if pid in known else program_of(self._reader, pid, self._pid)
            for pid in others
        }
        return frozenset(known) & frozenset(others)

    def _newly_idle(self, stayed: Collection[int]) -> list[int]:
        """Return a worker that stayed and was not looked into: what it holds stands still.

        Of a few in all, for it takes as long as a worker of the loader's own.
        """
        workers = (pid for pid in self._programs if self._programs[pid] is None)
        idle = [pid for pid in workers if pid in stayed and pid not in self._idle]
        chosen = idle[:1] if len(self._idle) < _MOST_IDLE else []
        self._idle |= set(chosen)
        return chosen

    def _process(self, pid: int, whole: bool) -> ProcessReading | None:
        text = self._reader.read(f"/proc/{pid}/status") or ""
        if "\nState:\tZ" in text:
            return None
        counters = _counters(text)
        memory, swapped = _of_counters(counters)
        touched = None
        if whole or memory is None:
            reading = memory_of(self._reader, pid)
            # where the pages may not be read there are the counters, as in quick looks
            if reading is not None and (memory is None or reading[0].anonymous is not None):
                if pid == self._pid:
                    self._are_counters_exact &= _agree(reading[0], memory)
                memory, swapped = reading
                stat = parse_stat(self._reader.read(f"/proc/{pid}/stat") or "")
                touched = None if stat is None else stat.faults * mmap.PAGESIZE
        if memory is None:
            return None
        names = self._reader.listdir(f"/proc/{pid}/fd")
        return ProcessReading(
            pid=pid,
            memory=memory,
            swapped=swapped,
            virtual=counters.get("VmSize"),
            shmem=counters.get("RssShmem"),
            descriptors=None if names is None else len(names),
            threads=parse_threads(text),
            touched=touched,
        )

    def _most_descriptors(self, pid: int) -> int | None:
        """Return the soft limit of a process; it is read once."""
        if pid not in self._limits:
            text = self._reader.read(f"/proc/{pid}/limits") or ""
            self._limits[pid] = parse_open_files(text)
        return self._limits[pid]


def _may_count_roughly(release: str) -> bool:
    """Tell whether a kernel of a release may tell a process's counters roughly."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return numbers is not None and (6, 2) <= (int(numbers[1]), int(numbers[2])) < (6, 16)


def _counters(text: str) -> dict[str, int]:
    """Return those sizes of a ``/proc/PID/status`` text that are wanted, in bytes.

    A quarter of the time that it takes to read all its lines.
    """
    found = {}
    for name in _COUNTERS:
        place = text.find(f"\n{name}:")
        if place >= 0:
            number = text[place + len(name) + 2 : text.find(" kB", place)].strip()
            if number.isdigit():
                found[name] = int(number) * 1024
    return found


def _of_counters(counters: dict[str, int]) -> tuple[MemoryReading | None, int]:
    """Return what the counters tell of a process's memory, and its bytes in swap."""
    swapped = counters.get("VmSwap", 0)
    if "VmRSS" not in counters or "RssAnon" not in counters:
        return None, swapped
    return MemoryReading(rss=counters["VmRSS"], anonymous=counters["RssAnon"]), swapped


def _agree(pages: MemoryReading, counted: MemoryReading | None) -> bool:
    if counted is None or pages.anonymous is None or counted.anonymous is None:
        return True
    return abs(pages.anonymous - counted.anonymous) <= _EXACT


def parse_threads(text: str) -> int | None:
    """Return the number of threads of a ``/proc/PID/status`` text, ``None`` without one."""
    found = re.search(r"^Threads:\s*(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found is not None else None


def parse_open_files(text: str) -> int | None:
    """Return the soft limit on open files of a ``/proc/PID/limits`` text, ``None`` without one."""
    for line in text.splitlines():
        if line.startswith("Max open files"):
            soft = line.removeprefix("Max open files").split()[:1]
            return int(soft[0]) if soft and soft[0].isdigit() else None
    return None
