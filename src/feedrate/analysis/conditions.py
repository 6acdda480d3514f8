"""What the verdicts of one condition start from: its points, its curve, its caveats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from feedrate.analysis.choosing import candidates
from feedrate.analysis.plateau import curves, plateau
from feedrate.analysis.stats import ENOUGH_RUNS
from feedrate.analysis.summary import Point, by_condition, summarize
from feedrate.analysis.wording import listed, sentence
from feedrate.records import Evidence, Finding, Metadata, Procedure, Severity, Suite

SETTINGS = (
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "start_method",
    "batch_size",
    "loader",
)
PUBLISHED = "fashion-mnist"
"""The target that stands for the published experiment."""
NEED_WORKERS = ("prefetch_factor", "persistent_workers", "start_method", "loader")


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One workload of a suite.

    Attributes:
        name: as in the records, "" where there is one.
        points: all of it, failed and skipped ones too.
        distinct: the points that have a rate, one for each settings.
        curve: the longest series over the worker count; empty where nothing was measured.
        choice: the point of the curve at the plateau's start, ``None`` without a curve.
        metadata, procedure: of the suite.
        loader: whose loader all of it is, where that was asked for; else "", see `by_loader`.
    """

    name: str
    points: tuple[Point, ...]
    distinct: tuple[Point, ...]
    curve: tuple[Point, ...]
    choice: Point | None
    metadata: Metadata
    procedure: Procedure
    loader: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether its protocol is fixed; see `has_fixed_protocol`."""
        return has_fixed_protocol(self.metadata)

    @property
    def tolerance(self) -> float:
        """Differences up to this share do not matter."""
        return self.procedure.tolerance

    def qualifier(self, only: Sequence[str] = SETTINGS) -> str:
        """Return "with pin_memory on" where the curve's settings, of those, need to be named."""
        if not self.curve:
            return ""
        return self.settings_of(self.curve[-1], only)

    def settings_of(self, point: Point, only: Sequence[str] = SETTINGS) -> str:
        """Return "with pin_memory on": those of the point's settings that vary with workers."""
        words = []
        for name in only:
            value = getattr(point.benchmark.settings, name)
            others = {getattr(p.benchmark.settings, name) for p in self.distinct if p.workers > 0}
            if value is not None and len(others) > 1:
                words.append(f"{name} {('off', 'on')[value] if isinstance(value, bool) else value}")
        return f"with {listed(words)}" if words else ""


def conditions(suite: Suite) -> tuple[Condition, ...]:
    """Return the suite's conditions in its order."""
    return tuple(
        _made(name, points, suite.metadata, suite.procedure)
        for name, points in by_condition(summarize(suite)).items()
    )


def by_loader(condition: Condition) -> tuple[Condition, ...]:
    """Return the condition once for each loader that was asked for, in the order of measuring.

    Each has that loader's points alone, and those without workers, where loaders do not differ; so
    nothing that is judged of one holds another's figures. The condition itself where no loader was
    asked for.
    """
    loaders = dict.fromkeys(_loader(point) for point in condition.points if point.workers > 0)
    if not any(loaders):
        return (condition,)
    return tuple(
        _made(
            condition.name,
            tuple(p for p in condition.points if p.workers == 0 or _loader(p) == loader),
            condition.metadata,
            condition.procedure,
            loader,
        )
        for loader in loaders
    )


def _loader(point: Point) -> str:
    return point.benchmark.settings.loader or ""


def at_count(curve: Iterable[Point], count: int) -> Point:
    """Return the curve's point with so many workers, which it has."""
    return next(point for point in curve if point.workers == count)


def fewest_runs(points: Iterable[Point]) -> int:
    """Return the number of runs behind the least known of the points."""
    return min((len(point.repeats) for point in points), default=0)


def caveat(
    condition: Condition,
    points: Sequence[Point],
    *,
    qualified: bool = True,
    about: int | None = None,
) -> str:
    """Return what a title must say first about the points that it is based on, or "".

    How many runs there are, if fewer than an interval needs; that only first epochs were measured;
    and with ``qualified`` which of several curves is spoken of: "From one run each, with pin_memory
    on, ". What does not apply without workers is not named where the title is ``about`` 0 workers.
    """
    counts = sorted(len(point.repeats) for point in points)
    words = []
    if counts and counts[0] < ENOUGH_RUNS:
        words.append(f"from {_runs(counts[0], counts[-1])}{' each' if len(points) > 1 else ''}")
    if any(point.kind == "cold_only" for point in points):
        words.append("by first epochs only")
    named = [name for name in SETTINGS if about != 0 or name not in NEED_WORKERS]
    if qualified and condition.qualifier(named):
        words.append(condition.qualifier(named))
    return sentence("".join(f"{word}, " for word in words))


def _runs(low: int, high: int) -> str:
    if low == high:
        return "one run" if low == 1 else f"{low} runs"
    return f"{low} to {high} runs"


def has_fixed_protocol(metadata: Metadata) -> bool:
    """Tell whether it is the published experiment: repeats, epochs and all but workers are given.

    A remedy must not name their options, which the command refuses there.
    """
    return metadata.target.partition(" ")[0] == PUBLISHED


def again_as_published(metadata: Metadata) -> str:
    """Return the remedy for what the published experiment did not settle."""
    if "--quick" in metadata.argv:
        return "Leave --quick out: the whole protocol measures longer and repeats more."
    return "Run the protocol again: its repeats are fixed."


def more_runs(condition: Condition, points: Iterable[Point]) -> str:
    """Return the remedy for a verdict that the runs do not settle."""
    if condition.is_fixed:
        return again_as_published(condition.metadata)
    runs = fewest_runs(points)
    wanted = ENOUGH_RUNS if runs < ENOUGH_RUNS else 2 * runs
    return f"Repeat each setting {wanted} times (--repeats {wanted})."


def finding(
    condition: Condition,
    code: str,
    title: str,
    *,
    based_on: Sequence[Point] = (),
    qualified: bool = False,
    about: int | None = None,
    evidence: Iterable[Evidence | None] = (),
    remedy: str = "",
    severity: Severity = "info",
) -> Finding:
    """Return a finding of the condition; evidence that could not be had is left out.

    Its title begins with the `caveat` of the points that it is ``based_on``, and where one of them
    has a single run the remedy says to repeat.
    """
    if fewest_runs(based_on) == 1 and (again := more_runs(condition, based_on)) not in remedy:
        remedy = f"{remedy} {again}".strip()
    return Finding(
        code=code,
        severity=severity,
        title=sentence(caveat(condition, based_on, qualified=qualified, about=about) + title),
        evidence=tuple(item for item in evidence if item is not None),
        remedy=remedy,
        condition=condition.name,
        loader=condition.loader,
    )


def _made(
    name: str,
    points: tuple[Point, ...],
    metadata: Metadata,
    procedure: Procedure,
    loader: str = "",
) -> Condition:
    curve = next(iter(curves(points)), ())
    return Condition(
        name=name,
        points=points,
        distinct=candidates(points),
        curve=curve,
        choice=at_count(curve, plateau(curve, procedure.tolerance).start) if curve else None,
        metadata=metadata,
        procedure=procedure,
        loader=loader,
    )
