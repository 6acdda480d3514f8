"""The page of benchmarks/transport.py, from its values."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tables
from transport_plan import (
    BATCHES,
    DATASET,
    FRESH,
    MEMCPY,
    OURS,
    PEERS,
    WORKERS,
    Batch,
    Failure,
    Value,
)

MOST_MICROSECONDS = 60
MOST_MEMCPYS = 1.3
_NONE = "–"


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the rounds, the least and the greatest, in microseconds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{_figure(self.median)} ({_figure(self.least)}–{_figure(self.most)})"


def _figure(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 10 else f"{microseconds:,.0f}"


class Results:
    """The values of a run, by peer, batch and workers."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values: dict[tuple[str, str, int], list[Value]] = {}
        for value in values:
            key = (value.peer, value.batch, value.workers)
            self._values.setdefault(key, []).append(value)

    def wall(self, peer: str, batch: Batch, workers: int) -> Spread | None:
        """Return what a batch takes, ``None`` where the peer has no value."""
        return _spread([v.seconds for v in self._values.get((peer, batch.name, workers), ())])

    def cpu(self, peer: str, batch: Batch, workers: int) -> Spread | None:
        """Return the main process's CPU time a batch, ``None`` where the peer has no value."""
        return _spread([v.cpu_seconds for v in self._values.get((peer, batch.name, workers), ())])

    def has(self, peer: str) -> bool:
        """Tell whether a peer has any value."""
        return any(key[0] == peer for key in self._values)


def _spread(seconds: Sequence[float]) -> Spread | None:
    if not seconds:
        return None
    micros = [value * 1e6 for value in seconds]
    return Spread(statistics.median(micros), min(micros), max(micros))


def page(
    results: Results, failures: Sequence[Failure], versions: Mapping[str, str], rounds: int
) -> list[str]:
    """Return the page's parts: what was measured, goals, both tables, what is missing."""
    had = ", ".join(f"{package} {version}" for package, version in versions.items())
    parts = [
        "# Transport: what it takes to bring a batch from a worker",
        tables.made_by("transport.py"),
        f"Peers: {had}.",
        _METHOD.format(rounds=rounds),
        "## Goals",
        _GOALS,
        goals(results),
        "## Microseconds a batch",
        _grid(results, cpu=False),
        "## Main process: CPU microseconds a batch",
        _grid(results, cpu=True),
        "## Limits",
        _LIMITS,
        limits(results),
    ]
    if failures:
        parts += ["## What is missing", missing(failures)]
    return parts


_METHOD = (
    "Microseconds a batch in the steady state: the median of the rounds (least–greatest), of which "
    "there are {rounds}. In each round every peer runs in a fresh process, one after the other, in "
    "rotated order. The dataset hands out ready-made batches (`batch_size=None`): the memory is "
    "filled once in the worker, and each batch has new tensors on it, since torch would otherwise "
    "send memory that it has moved already. The loop drops each batch before it asks for the next, "
    "and reads nothing of it. All deliver in order, and prefetch two batches a worker; all else is "
    "the peers' default. In a pass of its own every peer's batches, different ones each, were "
    "compared with what they have to be, byte for byte. SPDL's segment pool is its pipeline in a "
    "subprocess with `SharedMemorySegmentPool`; two workers are two of them in turns. The ring of "
    "NumPy arrays is as lean as Python allows: the shapes are agreed beforehand, and a batch holds "
    "good only until the next one is asked for."
)
_GOALS = (
    f"A small batch takes at most {MOST_MICROSECONDS} µs, one above 1 MiB at most "
    f"{MOST_MEMCPYS:g} times what one memcpy of it takes."
)
_LIMITS = (
    "One memcpy of the whole batch, by as many processes at once as there are workers, into memory "
    "touched before and of as many batches as are under way; the same into fresh shared memory, "
    "which costs more since the kernel has to provide each page, and is what a file per tensor "
    "pays; and what the dataset takes to hand out its batch, which is in every peer's figures."
)


def _rows() -> list[tuple[Batch, int]]:
    return [(batch, workers) for batch in BATCHES for workers in WORKERS]


def goals(results: Results) -> str:
    """Return feedrate's own figures against the goals."""
    rows = []
    for batch, workers in _rows():
        ours = results.wall(OURS, batch, workers)
        memcpy = results.wall(MEMCPY, batch, 1)
        at_once = results.wall(MEMCPY, batch, workers)
        ratios = [
            f"{ours.median / limit.median:.2f}"
            if ours is not None and limit is not None and batch.goal != "time"
            else _NONE
            for limit in (memcpy, at_once)
        ]
        shown = str(ours) if ours is not None else _NONE
        rows.append([batch.name, str(workers), shown, *ratios, verdict(batch, ours, memcpy)])
    head = ["Batch", "workers", "µs a batch", "÷ one memcpy", "÷ one by each worker", "goal"]
    return tables.table(head, rows)


def verdict(batch: Batch, ours: Spread | None, memcpy: Spread | None) -> str:
    """Return whether the median meets the batch's goal: pass, short or (no goal, no value) –."""
    if ours is None:
        return _NONE
    if batch.goal == "time":
        return "pass" if ours.median <= MOST_MICROSECONDS else "short"
    if batch.goal == "memcpy" and memcpy is not None:
        return "pass" if ours.median <= MOST_MEMCPYS * memcpy.median else "short"
    return _NONE


def _grid(results: Results, *, cpu: bool) -> str:
    """Return one row for each batch and number of workers, one column for each peer."""
    peers = [peer for peer in PEERS if results.has(peer.key)]
    of = results.cpu if cpu else results.wall
    head = ["Batch", "workers", *(peer.title for peer in peers)]
    if not cpu:
        head.append("one memcpy")
    rows = []
    for batch, workers in _rows():
        cells = [of(peer.key, batch, workers) for peer in peers]
        if not cpu:
            cells.append(results.wall(MEMCPY, batch, workers))
        rows.append([batch.name, str(workers), *(str(cell) if cell else _NONE for cell in cells)])
    return tables.table(head, rows)


def limits(results: Results) -> str:
    """Return what copying and handing out alone take."""
    rows = []
    for batch in BATCHES:
        cells = [results.wall(MEMCPY, batch, workers) for workers in WORKERS]
        cells += [results.wall(FRESH, batch, 1), results.wall(DATASET, batch, 1)]
        rows.append([batch.name, *(str(cell) if cell else _NONE for cell in cells)])
    copies = [f"memcpy, {count} at once" for count in WORKERS]
    return tables.table(["Batch", *copies, "memcpy, fresh memory", "dataset alone"], rows)


def missing(failures: Sequence[Failure]) -> str:
    """Return a list of what has no value, and why."""
    titles = {peer.key: peer.title for peer in PEERS}
    places: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        found = places.setdefault((failure.peer, failure.reason), [])
        if failure.batch is not None:
            found.append(f"{failure.batch}, workers: {failure.workers}")
    lines = []
    for (peer, reason), where in places.items():
        distinct = dict.fromkeys(where)
        everywhere = len(distinct) in (0, len(_rows()))
        at = "" if everywhere else f" ({'; '.join(distinct)})"
        lines.append(f"- {titles.get(peer, peer)}{at}: {reason}")
    return "\n".join(lines)
