"""Looks into this process: the traced memory by line, its tensors, its private bytes."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from feedrate.analysis.causes import Amount, Place, Sight
from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.memory import parse_smaps_rollup
from feedrate.measure.causes import tracing
from feedrate.measure.causes.lines import Lines
from feedrate.measure.causes.sampling import by_age
from feedrate.measure.causes.tensors import (
    MOST_NODES,
    graph_nodes,
    graph_of,
    is_tensor,
    storage_of,
    tensors_among,
)

_MOST_EARLIER = 1000
_MOST_NODES_EVER = 32 * MOST_NODES
_NEARLY = 0.5
"""A graph that is so large a share of what is looked at may be larger than that the next time."""


class Looker:
    """Looks at what was allocated since it was made and lives. Tracing is on by then.

    Of the tensors that were there before only those are kept in sight that may get a graph.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._earlier: list[weakref.ref[Any]] = []
        self._known: dict[int, _Tensor] = {}
        self._most_nodes = MOST_NODES
        objects = gc.get_objects()
        self._types = Counter(map(type, objects))
        for tensor in tensors_among(objects)[-_MOST_EARLIER:]:
            with contextlib.suppress(RuntimeError, AttributeError):
                if not (tensor.requires_grad and tensor.is_leaf):
                    self._earlier.append(weakref.ref(tensor))
        del objects
        self._sees_new_alone = tracing.set_aside()

    def close(self) -> None:
        """Let all objects be seen again, those that were there before too."""
        self._sees_new_alone = False
        tracing.take_back()

    def look(self, items: int, *, ends_epoch: bool = False) -> Sight:
        """Look; it takes some milliseconds, and about a second for a million traced blocks."""
        private = private_bytes()
        if private is not None:
            private -= tracemalloc.get_tracemalloc_memory()
        amounts: dict[Place, Amount] = {}
        for traceback, size, count in _grouped(tracemalloc.take_snapshot()):
            place = self._lines.place_of(traceback)
            if place is not None:
                _add(amounts, place, size, count)
        tensors = self.tensors()
        graphs: Counter[Place] = Counter()
        seen = set()
        self._remember(tensors)
        for known in self._known.values():
            if known.place is None:
                continue
            if known.storage is not None and known.storage[0] not in seen:
                seen.add(known.storage[0])
                _add(amounts, known.place, known.storage[1], 0)
            if known.has_graph:
                graphs[known.place] += 1
        return Sight(
            items=items,
            lines=amounts,
            graphs=dict(graphs),
            nodes=self._largest_graph(tensors),
            private=private,
            ends_epoch=ends_epoch,
        )

    def tensors(self) -> list[Any]:
        """Return the tensors in sight, those first that were there before."""
        earlier = [tensor for ref in self._earlier if (tensor := ref()) is not None]
        known = set(map(id, earlier))
        new = tensors_among(gc.get_objects())
        return earlier + [tensor for tensor in new if id(tensor) not in known]

    def place_of(self, value: object) -> Place | None:
        """Return the line that allocated an object, ``None`` if it was there before or is ours."""
        if is_tensor(value):
            known = self._known.get(id(value))
            if known is not None and known.tensor() is value:
                return known.place
        traceback = tracing.traceback_of(value)
        return self._lines.place_of(traceback) if traceback is not None else None

    def new_objects(self) -> list[Any]:
        """Return the tracked objects that may be new, those first that live longest.

        Exactly these where what was there before is set aside; else all of the types of which there
        are more now.
        """
        now = by_age()
        if self._sees_new_alone:
            return now
        counts = Counter(map(type, now))
        return [each for each in now if counts[type(each)] > self._types[type(each)]]

    def _largest_graph(self, tensors: list[Any]) -> int:
        """Return the nodes of the largest graph; what grows is followed as far as it goes.

        A sum of losses has the whole of its model's nodes more after each step.
        """
        nodes = graph_nodes(tensors, self._most_nodes)
        if nodes >= _NEARLY * self._most_nodes:
            self._most_nodes = min(4 * nodes, _MOST_NODES_EVER)
        return nodes

    def _remember(self, tensors: list[Any]) -> None:
        """Read what can be told of tensors. Of those seen before it is known: reading is slow."""
        known: dict[int, _Tensor] = {}
        for tensor in tensors:
            before = self._known.get(id(tensor))
            if before is None or before.tensor() is not tensor:
                before = _Tensor(
                    tensor=weakref.ref(tensor),
                    place=self.place_of(tensor),
                    storage=storage_of(tensor),
                    has_graph=graph_of(tensor) is not None,
                )
            known[id(tensor)] = before
        self._known = known


@dataclass(frozen=True, slots=True)
class _Tensor:
    tensor: weakref.ref[Any]
    place: Place | None
    storage: tuple[tuple[str, int], int] | None
    has_graph: bool


def _grouped(
    snapshot: tracemalloc.Snapshot,
) -> Iterable[tuple[tracemalloc.Traceback, int, int]]:
    """Return bytes and blocks by their traceback.

    Blocks of one snapshot that have the same traceback share one tuple, so they are grouped by its
    identity, several times as fast as ``statistics`` does it, by comparing all frames.
    """
    traces = getattr(snapshot.traces, "_traces", None)
    if not isinstance(traces, list | tuple):
        return [
            (each.traceback, each.size, each.count) for each in snapshot.statistics("traceback")
        ]
    if not traces:
        return []
    # In C throughout: what Python allocates here is traced too, which is most of the cost.
    keys = np.fromiter(map(id, map(itemgetter(2), traces)), dtype=np.uint64, count=len(traces))
    sizes = np.fromiter(map(itemgetter(1), traces), dtype=np.float64, count=len(traces))
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    totals = np.bincount(group, weights=sizes)
    counts = np.bincount(group)
    whole = snapshot.traces
    return [
        (whole[place].traceback, int(size), count)
        for place, size, count in zip(first.tolist(), totals.tolist(), counts.tolist(), strict=True)
    ]


def private_bytes(reader: ProcReader | None = None) -> int | None:
    """Return the bytes that only this process holds, ``None`` where the platform does not tell."""
    text = (reader or SystemReader()).read("/proc/self/smaps_rollup")
    try:
        return parse_smaps_rollup(text or "").uss
    except ValueError:
        return None


def _add(amounts: dict[Place, Amount], place: Place, size: int, count: int) -> None:
    before = amounts.get(place, Amount(0, 0))
    amounts[place] = Amount(before.size + size, before.blocks + count)
