"""What a run's memory samples leave behind: a bounded series and the highest values."""

from __future__ import annotations

from dataclasses import dataclass

from feedrate.memory_records import MemorySnapshot
from feedrate.records import Peaks

MAX_SNAPSHOTS = 200


@dataclass(slots=True)
class _Highest:
    """The highest sums of one kind of memory."""

    main: int = 0
    workers: int = 0
    total: int = 0
    worker_count: int = 0
    seen: bool = False

    def add(self, main: int, workers: int, count: int) -> None:
        if workers > self.workers or not self.seen:
            self.workers, self.worker_count = workers, count
        self.main = max(self.main, main)
        self.total = max(self.total, main + workers)
        self.seen = True


class MemoryHistory:
    """Collects the samples of one run. The peaks are of all of them, also of those let go."""

    def __init__(self) -> None:
        self._kept: list[MemorySnapshot] = []
        self._latest: MemorySnapshot | None = None
        self._count = 0
        self._stride = 1
        self._pss = _Highest()
        self._rss = _Highest()
        self._shm: int | None = None
        self._main_descriptors: int | None = None
        self._worker_descriptors: int | None = None

    def add(self, snapshot: MemorySnapshot) -> None:
        """Take a sample into the series and the peaks."""
        main, workers = snapshot.main, snapshot.workers
        self._rss.add(main.rss, workers.rss if workers else 0, snapshot.worker_count)
        workers_pss = workers.pss if workers else 0
        if main.pss is not None and workers_pss is not None:
            self._pss.add(main.pss, workers_pss, snapshot.worker_count)
        self.look(snapshot.shm_bytes, snapshot.main_descriptors)
        self._worker_descriptors = _higher(self._worker_descriptors, snapshot.worker_descriptors)
        self._keep(snapshot)

    def look(self, shm_bytes: int | None, main_descriptors: int | None) -> None:
        """Take into the peaks what was seen between samples."""
        self._shm = _higher(self._shm, shm_bytes)
        self._main_descriptors = _higher(self._main_descriptors, main_descriptors)

    def snapshots(self) -> tuple[MemorySnapshot, ...]:
        """Return every n-th sample and the latest, `MAX_SNAPSHOTS` at most."""
        if self._latest is None or self._kept[-1] is self._latest:
            return tuple(self._kept)
        return (*self._kept, self._latest)

    def peaks(self, shm_before: int | None) -> Peaks | None:
        """Return the highest values, ``None`` where there was no sample.

        ``shm_before`` is what ``/dev/shm`` held before the run, in bytes; where that is ``None``,
        so is the peak above it. With ``memory_kind`` "rss" the workers' and the total bytes count
        shared pages once for each process.
        """
        if not self._rss.seen:
            return None
        highest = self._pss if self._pss.seen else self._rss
        shm = self._shm
        return Peaks(
            memory_kind="pss" if self._pss.seen else "rss",
            main_bytes=highest.main,
            worker_bytes=highest.workers,
            total_bytes=highest.total,
            workers=highest.worker_count,
            shm_bytes=None if shm is None or shm_before is None else max(0, shm - shm_before),
            main_descriptors=self._main_descriptors,
            worker_descriptors=self._worker_descriptors,
        )

    def _keep(self, snapshot: MemorySnapshot) -> None:
        self._latest = snapshot
        if self._count % self._stride == 0:
            self._kept.append(snapshot)
        self._count += 1
        if len(self._kept) == MAX_SNAPSHOTS:  # one place stays for the latest
            self._kept = self._kept[::2]
            self._stride *= 2


def _higher(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)
