"""The points of a suite in the order and the groups in which people are shown them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from feedrate.analysis.summary import Point
from feedrate.records import Benchmark
from feedrate.report.words import facts_of

NONE = "–"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting besides the workers. ``needs_workers``: it means nothing with 0 of them."""

    name: str
    head: tuple[str, ...]
    needs_workers: bool

    def of(self, benchmark: Benchmark) -> str:
        """Return its value as it was asked for, or else as the target has it; "–" for none."""
        if self.needs_workers and benchmark.settings.num_workers == 0:
            return NONE
        value = getattr(benchmark.settings, self.name)
        facts = facts_of(benchmark)
        if value is None and facts is not None:
            value = getattr(facts, self.name)
        if isinstance(value, bool):
            return "on" if value else "off"
        return NONE if value is None else str(value)


SETTINGS = (
    Setting("loader", ("", "loader"), True),
    Setting("prefetch_factor", ("prefetch", "factor"), True),
    Setting("pin_memory", ("pin", "memory"), False),
    Setting("persistent_workers", ("persistent", "workers"), True),
    Setting("start_method", ("start", "method"), True),
    Setting("batch_size", ("batch", "size"), False),
)


@dataclass(frozen=True, slots=True)
class Group:
    """Points that are shown together, sorted by their workers.

    ``varying`` are the other settings in which they differ; ``others`` says what those are where
    all points of the group agree in them: "prefetch_factor 4, pin_memory on".
    """

    condition: str
    part: str
    points: tuple[Point, ...]
    varying: tuple[Setting, ...]
    others: str = ""


def parts_of(points: Iterable[Point]) -> tuple[Group, ...]:
    """Return one group for each condition and part, in the order in which they were measured."""
    found: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        found.setdefault((point.benchmark.condition, point.benchmark.part), []).append(point)
    return tuple(
        Group(condition, part, _sorted(members), varying(members))
        for (condition, part), members in found.items()
    )


def lines_of(points: Iterable[Point]) -> tuple[Group, ...]:
    """Return one group for each line of a figure: a part's points with the same other settings.

    A point without workers belongs to every line that it agrees with in what it can have.
    """
    return tuple(line for part in parts_of(points) for line in _split(part))


def varying(points: Sequence[Point]) -> tuple[Setting, ...]:
    """Return the settings besides the workers in which points differ."""
    return tuple(
        setting
        for setting in SETTINGS
        if len({setting.of(point.benchmark) for point in points} - {NONE}) > 1
    )


def _sorted(points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple(sorted(points, key=lambda point: point.benchmark.settings.num_workers))


def _split(part: Group) -> tuple[Group, ...]:
    values = [tuple(s.of(point.benchmark) for s in part.varying) for point in part.points]
    # "–" is open: a loader without workers has no prefetch_factor, one that failed told nothing
    lines = list(dict.fromkeys(v for v in values if NONE not in v)) or list(dict.fromkeys(values))
    return tuple(
        Group(
            part.condition,
            part.part,
            tuple(p for p, v in zip(part.points, values, strict=True) if _agree(v, line)),
            part.varying,
            ", ".join(f"{s.name} {v}" for s, v in zip(part.varying, line, strict=True)),
        )
        for line in lines
    )


def _agree(values: Sequence[str], line: Sequence[str]) -> bool:
    return all(a in (NONE, b) for a, b in zip(values, line, strict=True))
