"""The faults and the harmless patterns of `leak_faults.py`, and the ways of starting workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
TARGETS, STEPS, PATTERN_TARGETS = "leak_targets.py", "leak_steps.py", "leak_patterns.py"
SHM_PREFIX = "feedrate-leak-target-"
_KIB = 1024

OF_WORKERS = "memory.worker_growth"
OF_MAIN = "memory.main_step_growth"
OF_DATASET = "memory.dataset_cache_growth"
OPEN_IN_MAIN = "memory.fd_growth_main"


@dataclass(frozen=True, slots=True)
class Way:
    """How workers are started; without any, ``method`` is ""."""

    method: str
    workers: int
    kept: bool

    @property
    def name(self) -> str:
        """What the page's column is called."""
        if not self.workers:
            return "no workers"
        return f"{self.method}{', kept' if self.kept else ''}"


WAYS = (
    Way("fork", 2, False),
    Way("fork", 2, True),
    Way("", 0, False),
    Way("forkserver", 2, False),
    Way("forkserver", 2, True),
    Way("spawn", 2, False),
    Way("spawn", 2, True),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: of its factory, and of the mark behind the line that allocates.
        says: what it does, in words.
        code: the finding that is to come; in a loop without workers ``alone``, where that differs.
        also: findings that are right beside it.
        sizes: the bytes that it keeps of each item.
        has_line: Python allocates what grows, in the line that is marked.
        file: where its factory is.
        methods: the ways of starting workers that show it; all where it is empty.
        needs_workers: it cannot happen without, or ends with the first epoch.
    """

    name: str
    says: str
    code: str
    alone: str = ""
    also: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (2 * _KIB,)
    has_line: bool = True
    file: str = TARGETS
    methods: tuple[str, ...] = ()
    needs_workers: bool = False

    def expected(self, way: Way) -> str:
        """Return the code that is right for such a loader."""
        return self.code if way.workers or not self.alone else self.alone

    def applies(self, way: Way) -> bool:
        """Tell whether the fault can happen so."""
        if not way.workers:
            return not self.needs_workers
        return not self.methods or way.method in self.methods

    def line(self) -> int | None:
        """Return the number of the line that allocates, ``None`` where Python does not."""
        if not self.has_line:
            return None
        lines = (HERE / self.file).read_text("utf-8").splitlines()
        mark = re.compile(rf"# here: {self.name}( |$)")
        (found,) = (number for number, text in enumerate(lines, 1) if mark.search(text))
        return found


@dataclass(frozen=True, slots=True)
class Pattern:
    """One harmless pattern: nothing may be reported of it but information."""

    name: str
    says: str


_RATES = (200, 2 * _KIB, 32 * _KIB)

_DATASET_FAULTS = (
    Fault("global_list", "a global list grows in each worker", OF_WORKERS, OF_MAIN, sizes=_RATES),
    Fault("dataset_list", "a list of the dataset grows", OF_DATASET, sizes=_RATES),
    Fault(
        "cache",
        "a cache of the dataset by index",
        OF_DATASET,
        sizes=(4 * _KIB, 64 * _KIB),
        needs_workers=True,
    ),
    Fault("lru_cache", "functools.cache of a function", OF_WORKERS, OF_MAIN),
    Fault("transform", "a transform keeps what it drew", OF_DATASET),
    Fault("global_tensors", "a global list of tensors grows", OF_WORKERS, OF_MAIN),
    Fault("cycles", "reference cycles, the collector off", "memory.cycles"),
    Fault(
        "native",
        "a C library does not free",
        "memory.native_growth",
        sizes=_RATES,
        has_line=False,
    ),
    Fault(
        "fragments",
        "freed blocks that fit nothing later",
        "memory.allocator_pages",
        sizes=(8 * _KIB,),
        has_line=False,
    ),
    Fault(
        "open_files",
        "files are left open in __getitem__, one in 50 items",
        "memory.fd_growth_worker",
        "memory.fd_growth_main",
    ),
    Fault(
        "threads",
        "threads are started in __getitem__, one in 20 items",
        "memory.thread_growth_worker",
        "memory.thread_growth_main",
    ),
    Fault("shared_files", "files in /dev/shm are left", "memory.shm_growth", has_line=False),
    Fault(
        "copy_on_write",
        "a list of 300,000 dicts is read",
        "memory.cow_growth",
        has_line=False,
        methods=("fork",),
        needs_workers=True,
    ),
    Fault(
        "views",
        "items are rows of 4 MiB, and carry all of it",
        "memory.view_ships_storage",
        has_line=False,
        needs_workers=True,
    ),
    Fault(
        "index_list",
        "the sampler lists two million indices",
        "memory.sampler_list",
        has_line=False,
    ),
)

_STEP_FAULTS = (
    Fault("kept_numbers", "the step keeps a record of each item", OF_MAIN, sizes=_RATES),
    Fault(
        "kept_batches",
        "the step keeps batches",
        OF_MAIN,
        also=(OPEN_IN_MAIN,),
        has_line=False,
    ),
    # A graph keeps the batch that it was made from, which has a descriptor.
    Fault("kept_losses", "the step keeps losses with their graph", OF_MAIN, also=(OPEN_IN_MAIN,)),
    Fault("growing_graph", "a sum of losses: its graph grows", OF_MAIN, also=(OPEN_IN_MAIN,)),
    Fault("callbacks", "a hook is registered in each step", OF_MAIN),
    Fault("cycles_in_main", "cycles in the step, the collector off", "memory.cycles"),
    Fault(
        "native_in_main",
        "the step calls a C library that does not free",
        "memory.native_growth",
        has_line=False,
    ),
    Fault("open_files_in_main", "the step leaves files open", "memory.fd_growth_main"),
    Fault("threads_in_main", "one in five steps starts a thread", "memory.thread_growth_main"),
    Fault(
        "kept_iterators",
        "iterators are kept, one in 40 steps",
        "memory.workers_pile_up",
        also=(OPEN_IN_MAIN, OF_MAIN, "memory.shm_growth"),
        has_line=False,
    ),
    Fault(
        "idle_workers",
        "validation workers stay",
        "memory.idle_workers",
        has_line=False,
        needs_workers=True,
    ),
    Fault(
        "deep_queue",
        "prefetch_factor 8 of 6 MiB batches",
        "memory.prefetch_queue",
        has_line=False,
        needs_workers=True,
    ),
)

FAULTS = (*_DATASET_FAULTS, *(replace(each, file=STEPS) for each in _STEP_FAULTS))

PATTERNS = (
    Pattern("still", "nothing is kept"),
    Pattern("no_step", "nothing is kept, no step"),
    Pattern("bounded_cache", "a cache of 80 items of 64 KiB"),
    Pattern("bounded_lru_cache", "lru_cache(maxsize=100) of 32 KiB"),
    Pattern("late_table", "20 MB set up once, in the third epoch or later"),
    Pattern("collected_cycles", "cycles that the collector ends"),
    Pattern("mapped_file", "a memory-mapped file of 64 MiB"),
    Pattern("page_cache", "files read: the page cache"),
    Pattern("shared_array", "one array of 62 MiB, shared under fork"),
    Pattern("varying_sizes", "arrays of all sizes, freed"),
    Pattern("parsed_text", "text parsed for each item"),
    Pattern("shared_list", "20,000 records in a SharedList"),
    Pattern("thread_arenas", "threads that come and go, with arenas of the C allocator"),
    Pattern("traced", "tracemalloc runs, as under a profiler"),
    Pattern("training", "Adam, losses as numbers, the best state kept"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be made: a fault or a pattern, in one way; ``size`` is 0 of a pattern."""

    name: str
    way: Way
    size: int
    repeat: int = 0


def fault_cases(ways: tuple[Way, ...]) -> Iterator[Case]:
    """Yield each fault at each rate, way by way."""
    for way in ways:
        for fault in FAULTS:
            if fault.applies(way):
                for size in fault.sizes:
                    yield Case(fault.name, way, size)


def pattern_cases(ways: tuple[Way, ...], repeats: int) -> Iterator[Case]:
    """Yield each pattern in each way, round by round."""
    for repeat in range(repeats):
        for way in ways:
            for pattern in PATTERNS:
                yield Case(pattern.name, way, 0, repeat)
