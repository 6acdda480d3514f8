"""What keeps growing from look to look inside one process.

A look, a `Sight`, has the memory behind each line of code at one moment; the looks lie at even
distances, counted in items, or at the ends of epochs. What fluctuates, fills up and stays, or came
once at the start is no cause.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

LEAST_SIGHTS = 4
_MISSED = 5
"""One of so many steps may be without growth."""
_FALLEN = 0.1
"""Of what was gained no more than this share is lost again on the way."""
_LATE = 0.25
"""In the second half it grows at least at this share of the whole's rate."""
_FILLING = 2
"""What fills up grows between more than two of the looks, or by so many objects between two."""
_MANY = 64
_EXPLAINS = 0.5
"""Lines that explain less than this share of a growth are not its cause."""
_LEAST_RATE = 4.0
"""Bytes per item below which a line is let be: a figure that is kept for each batch is none."""
_LEAST_SHARE = 0.02
"""A line that brings less than this share of what the largest brings is none of the causes."""

Place = tuple[str, int]
"""A file and a line of it."""


class Amount(NamedTuple):
    """Bytes, and the memory blocks or objects that they are in."""

    size: int
    blocks: int


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """One look into a process that Python's allocations are traced in.

    Attributes:
        items: how many items the process had passed since the pass began.
        lines: what was allocated since then and lives, by the line that allocated it; tensors with
            their storages.
        graphs: the tensors among it that hold an autograd graph, by line.
        nodes: the size of the largest autograd graph that any tensor holds.
        private: bytes that only this process holds, without those of the tracing itself;
            ``None`` where the platform does not tell.
        ends_epoch: it was taken when an epoch had ended.
    """

    items: int
    lines: Mapping[Place, Amount]
    graphs: Mapping[Place, int] = {}
    nodes: int = 0
    private: int | None = None
    ends_epoch: bool = False


class Rising(msgspec.Struct, frozen=True, kw_only=True):
    """A line whose memory keeps growing: bytes, blocks and tensors with a graph per item."""

    place: Place
    size: float
    count: float
    graphs: float = 0.0


def comparable(sights: Sequence[Sight]) -> tuple[Sight, ...]:
    """Return the looks at the same phase: the ends of epochs if there are enough, else the others.

    The first is left out: it is of the warm-up.
    """
    ends = [sight for sight in sights if sight.ends_epoch]
    within = [sight for sight in sights if not sight.ends_epoch]
    return tuple((ends if len(ends) > LEAST_SIGHTS else within)[1:])


def slope(items: Sequence[int], values: Sequence[float]) -> float:
    """Return by how much a value grows per item, 0 where it does not keep growing.

    It does if it rises at all steps but one in five and hardly ever falls, ends above where it
    began, and has not come to rest. The slope is Theil and Sen's, the median of those of all pairs.
    """
    if len(values) < LEAST_SIGHTS or values[-1] <= values[0]:
        return 0.0
    steps = [after - before for before, after in itertools.pairwise(values)]
    flat = sum(step <= 0 for step in steps)
    fallen = -sum(step for step in steps if step < 0)
    risen = values[-1] - values[0]
    third = max(1, len(values) // 3)
    half = len(values) // 2
    late = (values[-1] - values[half]) / max(1, items[-1] - items[half])
    if (
        flat > len(steps) // _MISSED
        or fallen > _FALLEN * risen
        or min(values[-third:]) <= max(values[:third])
        or late < _LATE * risen / max(1, items[-1] - items[0])
    ):
        return 0.0
    pairs = itertools.combinations(zip(items, values, strict=True), 2)
    return statistics.median((y - v) / (x - u) for (u, v), (x, y) in pairs if x > u)


def rising_lines(sights: Sequence[Sight]) -> tuple[Rising, ...]:
    """Return the lines whose memory keeps growing, those that bring most first.

    A line is kept though it brings little if it makes tensors that hold graphs: what these hold
    is not Python's.
    """
    if len(sights) < LEAST_SIGHTS:
        return ()
    items = [sight.items for sight in sights]
    found = []
    nothing = Amount(0, 0)
    for place in sights[-1].lines:
        amounts = [sight.lines.get(place, nothing) for sight in sights]
        size = slope(items, [amount.size for amount in amounts])
        if size <= 0:
            continue
        count = slope(items, [amount.blocks for amount in amounts])
        graphs = slope(items, [sight.graphs.get(place, 0) for sight in sights])
        if size >= _LEAST_RATE or graphs:
            found.append(Rising(place=place, size=size, count=count, graphs=graphs))
    return leading(found)


def filled_lines(sights: Sequence[Sight]) -> tuple[Rising, ...]:
    """Return the lines that filled something up and keep it, if that explains what was grown.

    For a process that is known to have grown: its cache may be full before there are looks enough.
    What came in one step is no such thing, unless it is many objects: a small cache is full before
    the second look. The rates are the means over the whole pass.
    """
    if len(sights) < 2:
        return ()
    span = max(1, sights[-1].items - sights[0].items)
    nothing = Amount(0, 0)
    found = []
    for place, last in sights[-1].lines.items():
        amounts = [sight.lines.get(place, nothing) for sight in sights]
        steps = [after.size - before.size for before, after in itertools.pairwise(amounts)]
        risen = last.size - amounts[0].size
        fallen = -sum(step for step in steps if step < 0)
        count = max(0, last.blocks - amounts[0].blocks)
        fills = sum(step > 0 for step in steps) >= _FILLING or count >= _MANY
        if risen > 0 and fills and fallen <= _FALLEN * risen:
            found.append(Rising(place=place, size=risen / span, count=count / span))
    whole = grown(sights)
    lines = leading(found)
    explained = span * sum(line.size for line in lines)
    return lines if whole and explained >= _EXPLAINS * whole else ()


def leading(lines: Sequence[Rising]) -> tuple[Rising, ...]:
    """Return the lines that matter beside the largest, that one first."""
    ordered = sorted(lines, key=lambda line: (-line.size, line.place))
    least = _LEAST_SHARE * ordered[0].size if ordered else 0.0
    return tuple(line for line in ordered if line.size >= least or line.graphs)


def node_slope(sights: Sequence[Sight]) -> float:
    """Return by how many nodes per item the largest autograd graph grows, 0 where it does not."""
    return slope([sight.items for sight in sights], [sight.nodes for sight in sights])


def grown(sights: Sequence[Sight]) -> int:
    """Return what the process's own memory grew by from the first to the last of the looks.

    0 where that is not known, or it became less.
    """
    known = [sight.private for sight in sights if sight.private is not None]
    return max(0, known[-1] - known[0]) if known else 0


def dropped(before: Sight, after: Sight) -> dict[Place, Amount]:
    """Return what a collection gave back, by line; lines that lost nothing are left out."""
    lost = {}
    for place, amount in before.lines.items():
        left = after.lines.get(place, Amount(0, 0))
        if left.size < amount.size:
            lost[place] = Amount(amount.size - left.size, max(0, amount.blocks - left.blocks))
    return lost
