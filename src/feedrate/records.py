"""What was measured: frozen records that are written to the file as they are.

Units: seconds, bytes, items per second. Figures that follow from others (rates, peaks, shares)
are not stored here but computed in `feedrate.analysis`, so that a file cannot contradict
itself; the sums that `Epoch` keeps for readers of the JSON are checked when it is made.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from feedrate.memory_records import MemorySnapshot, MemoryWatch
from feedrate.settings import Allowed, LoaderKind, LoaderSettings

FORMAT = "feedrate"
VERSION = 1

Severity = Literal["error", "warning", "info"]
MemoryKind = Literal["pss", "rss"]
ErrorKind = Literal[
    "exception",
    "target",
    "no_batches",
    "worker_died",
    "killed",
    "out_of_memory",
    "shared_memory",
    "crashed",
    "exited",
    "timeout",
    "interrupted",
    "fixed_workers",
]


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Where, when and with what a suite was measured.

    ``local_ranks`` training processes share the CPUs, this one included.
    """

    feedrate_version: str
    python_version: str
    os: str
    cpu: str
    logical_cpus: int
    usable_cpus: float
    usable_cpus_from: str
    ram_bytes: int
    memory_limit_bytes: int | None
    shm_bytes: int | None
    target: str
    argv: tuple[str, ...]
    seed: int | None
    started_at: str
    torch_version: str | None = None
    torchvision_version: str | None = None
    numpy_version: str | None = None
    accelerator: str | None = None
    default_start_method: str | None = None
    local_ranks: int = 1


class Procedure(msgspec.Struct, frozen=True, kw_only=True):
    """How the suite was measured and judged: enough to compute its findings again.

    ``allow`` names what a tune might try though it changes what is trained.
    """

    epochs: int
    repeats: int
    max_batches: int | None = None
    step_seconds: float | None = None
    device: str = "auto"
    timeout_seconds: float = 300.0
    tolerance: float = 0.03
    plan_epochs: int = 10
    budget_seconds: float | None = None
    allow: tuple[Allowed, ...] = ()


class LoaderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The loader as it really ran, read off the object in the child.

    ``length`` is the number of batches an epoch announces, ``None`` where it announces none.
    ``batch_bytes`` is the size of the tensors and arrays in the first batch, 0 until one came.
    ``left_out`` names settings that the target has and that could not apply, each with its reason.
    ``in_order`` is ``None`` where torch has no such setting (before 2.6). ``main_threads`` is how
    many threads torch may use in the main process. ``loader`` says whose workers fetched, ``None``
    where there are none.
    """

    loader_type: str
    dataset_type: str
    dataset_length: int | None
    iterable: bool
    length: int | None
    batch_size: int | None
    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    start_method: str | None
    has_step: bool
    batch_bytes: int = 0
    batch_tensors: int = 0
    left_out: tuple[str, ...] = ()
    in_order: bool | None = None
    main_threads: int | None = None
    loader: LoaderKind | None = None


class LoaderUse(msgspec.Struct, frozen=True, kw_only=True):
    """One loader that a script iterated, and how.

    ``number`` counts loaders from 0 on in the order in which they were first iterated; loaders
    made at the same place in the code are one. ``file`` and ``line`` are where it was made,
    ``None`` where that is not in the user's code. ``optimizer_steps`` counts those between its
    batches: the loader that has them is the training loader. ``epochs`` counts how often it was
    begun, ``complete_epochs`` how often it came to its end, and ``ended_batches`` is how many
    batches it gave when it last said so itself; ``most_batches`` the most of any epoch, whole or
    not.
    """

    number: int
    file: str | None
    line: int | None
    facts: LoaderFacts
    epochs: int
    complete_epochs: int
    batches: int
    optimizer_steps: int
    ended_batches: int | None = None
    most_batches: int = 0


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over the loader.

    ``seconds`` = ``begin_seconds`` (the call of ``iter()``) + the sum of ``batch_waits`` (time
    blocked in ``next()``) + the sum of ``batch_steps`` (from a batch's arrival to the next request)
    + ``end_seconds`` (the last ``next()``, which finds the end, and the device's synchronization).
    ``complete`` is false where ``max_batches`` cut the epoch short.
    CPU seconds are those of all threads of the main process, and of all workers together;
    ``None`` where the platform does not tell.
    """

    seconds: float
    items: int
    batches: int
    wait_seconds: float
    step_seconds: float
    begin_seconds: float
    end_seconds: float
    batch_waits: tuple[float, ...]
    batch_steps: tuple[float, ...]
    complete: bool
    main_cpu_seconds: float | None = None
    worker_cpu_seconds: float | None = None

    def __post_init__(self) -> None:
        if not len(self.batch_waits) == len(self.batch_steps) == self.batches:
            raise ValueError("an epoch needs one wait and one step for each batch")
        waited = self.begin_seconds + math.fsum(self.batch_waits) + self.end_seconds
        stepped = math.fsum(self.batch_steps)
        for name, stored, summed in (
            ("wait_seconds", self.wait_seconds, waited),
            ("step_seconds", self.step_seconds, stepped),
            ("seconds", self.seconds, waited + stepped),
        ):
            if not math.isclose(stored, summed, rel_tol=1e-6, abs_tol=1e-5):
                raise ValueError(f"an epoch's {name} is {stored}, but its parts add up to {summed}")


WindowPhase = Literal["own", "cached", "ramp", "static"]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of batches measured as one value at a fixed number of active workers.

    ``level`` is that number, 0 where the main process fetches. ``phase`` is what was measured: the
    user's own loader, one cached batch (the ceiling), a level of the ramp, or given settings on
    torch's loader. ``seconds`` = ``wait_seconds`` + ``step_seconds``, sums over the window; in a
    ramp the wait is at least what the workers of that level need for so many batches, though some
    were left in the queue by more of them. What a
    worker takes for a batch is ``fetch_seconds`` (wall) and ``worker_cpu_seconds``; the main
    process's CPU seconds a batch are ``main_cpu_seconds``; ``fetch_variation`` is the standard
    deviation of fetch times over their mean. ``None`` where it was not measured. ``batch_waits``
    and ``batch_steps`` are the seconds of each batch, where kept.
    """

    level: int
    batches: int
    items: int
    seconds: float
    phase: WindowPhase = "ramp"
    wait_seconds: float = 0.0
    step_seconds: float = 0.0
    prefetch: int | None = None
    fetch_seconds: float | None = None
    worker_cpu_seconds: float | None = None
    main_cpu_seconds: float | None = None
    fetch_variation: float | None = None
    batch_waits: tuple[float, ...] = ()
    batch_steps: tuple[float, ...] = ()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One decision of a search: from here on ``level`` workers, and why."""

    level: int
    prefetch: int | None
    reason: str


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """The highest values seen in a run.

    ``memory_kind`` is "pss" (shared pages are divided among the processes that map them) or "rss"
    where the platform has no more. ``shm_bytes`` is what ``/dev/shm`` held above what it held
    before the run. ``worker_bytes`` is all workers together, ``workers`` how many they were then.
    """

    memory_kind: MemoryKind
    main_bytes: int
    worker_bytes: int
    total_bytes: int
    workers: int
    shm_bytes: int | None
    main_descriptors: int | None
    worker_descriptors: int | None


class DevicePeaks(msgspec.Struct, frozen=True, kw_only=True):
    """An accelerator's memory and use over a run. ``utilization`` is a share from 0 to 1."""

    name: str
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    utilization: float | None = None


class RunError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run has no, or not all, figures. ``sentence`` stands alone; ``traceback`` is whole."""

    kind: ErrorKind
    sentence: str
    traceback: str = ""
    exit_code: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One child: started, measured, ended.

    ``setup_seconds`` is what the target's module and factory took, ``startup_seconds`` the time
    from ``iter()`` to the first batch of the first epoch. ``position`` is its place in the order
    in which the suite's runs were made. ``other_cpu_seconds`` is CPU time that processes outside
    this run took on the usable CPUs while it lasted (``seconds``). Of a script: ``loaders`` are
    those that it iterated, ``training_loader`` the number of the one that was measured; ``choices``
    are the decisions of a search over ``windows``.
    """

    position: int
    repeat: int
    setup_seconds: float | None = None
    startup_seconds: float | None = None
    seconds: float | None = None
    other_cpu_seconds: float | None = None
    facts: LoaderFacts | None = None
    epochs: tuple[Epoch, ...] = ()
    windows: tuple[Window, ...] = ()
    choices: tuple[Choice, ...] = ()
    loaders: tuple[LoaderUse, ...] = ()
    training_loader: int | None = None
    memory: tuple[MemorySnapshot, ...] = ()
    peaks: Peaks | None = None
    device: DevicePeaks | None = None
    error: RunError | None = None


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """Runs with equal settings.

    ``condition`` tells apart workloads in one suite ("light", "augmented"; "" where there is one),
    ``part`` the series within it ("sweep", "repeated", "pin_memory"). ``left_out`` says which
    settings were asked for and do not apply here; ``skipped`` why it was not tried at all.
    """

    label: str
    settings: LoaderSettings
    condition: str = ""
    part: str = "sweep"
    runs: tuple[Run, ...] = ()
    left_out: tuple[str, ...] = ()
    skipped: str | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One figure behind a finding, with its interval where one could be had."""

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        for figure in (self.value, self.low, self.high):
            if figure is not None and not math.isfinite(figure):
                raise ValueError(f"evidence must be finite: {self.name} is {figure}")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence that was found true, with its evidence and what to do about it.

    ``condition`` is the workload that it speaks of, "" for the whole suite. ``loader`` is whose
    loader it speaks of where that was asked for ("torch", "feedrate"), else "". Of an error that is
    explained: ``why`` it happens, what this ``machine``'s figures say about it, and the ``quote``
    of the log that tells of it.
    """

    code: str
    severity: Severity
    title: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    condition: str = ""
    loader: str = ""
    why: str = ""
    machine: str = ""
    quote: str = ""


class LookedAt(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at and is fine: its ``name``, and what was ``seen``, with its figures."""

    name: str
    seen: str


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that were confirmed against the user's own.

    ``ratio`` is their rate over that of the user's own settings, with its interval;
    ``confirmations`` how many runs of each stand behind it. ``line`` is the call's arguments as
    they are to be written, ``statements`` what is to be written besides. ``file`` and
    ``line_number`` are where the loader is made.
    """

    settings: LoaderSettings
    reasons: tuple[str, ...] = ()
    ratio: Evidence | None = None
    confirmations: int = 0
    line: str = ""
    statements: tuple[str, ...] = ()
    file: str | None = None
    line_number: int | None = None


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """One file: everything that one command measured, and what followed from it."""

    metadata: Metadata
    procedure: Procedure
    kind: str = "bench"
    benchmarks: tuple[Benchmark, ...] = ()
    findings: tuple[Finding, ...] = ()
    recommendation: Recommendation | None = None
    looked_at: tuple[LookedAt, ...] = ()
    watch: MemoryWatch | None = None
    format: str = FORMAT
    version: int = VERSION
