"""What the figure shows of a suite: which points make a line, and what the line is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from feedrate.analysis.plateau import Plateau, by_count, plateau
from feedrate.analysis.summary import Point, by_condition, summarize
from feedrate.records import Suite
from feedrate.report.series import NONE, SETTINGS, Group, lines_of
from feedrate.report.words import count

_MAIN_PARTS = ("sweep", "repeated")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line: ``main`` are its joined points, ``repeated`` those that were looked at again.

    ``best`` has one point for each worker count, the one with the most runs: the plateau is found
    in those. ``found`` is ``None`` where there are fewer than two counts to compare.
    """

    condition: str
    others: str
    main: tuple[Point, ...]
    repeated: tuple[Point, ...]
    best: tuple[Point, ...]
    found: Plateau | None

    @property
    def name(self) -> str:
        """Its condition and the settings that tell it apart; "" for a suite's only line."""
        return ", ".join(part for part in (self.condition, self.others) if part)

    @property
    def start(self) -> Point | None:
        """The point at which the plateau starts; ``None`` where no plateau was reached."""
        if self.found is None or self.found.at_edge:
            return None
        return next(point for point in self.best if point.workers == self.found.start)

    @property
    def plateau_words(self) -> str:
        """What the legend says about the plateau."""
        if self.found is None:
            return ""
        if self.found.at_edge:
            return f"no plateau up to {count(self.found.start, 'worker')}"
        doubt = "" if self.found.decided else ", undecided"
        return f"plateau starts at {self.found.start} (ring){doubt}"


@dataclass(frozen=True, slots=True)
class Panel:
    """Points whose epochs are drawn side by side, each with what to write below it.

    ``look`` is the number of the curve whose colour they have.
    """

    condition: str
    title: str
    look: int
    axis: str
    bars: tuple[tuple[str, Point], ...]


def panels_of(curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """Return a panel for each curve; with one worker count for all, one for each condition."""
    only = only_count(curves)
    if only is None:
        return tuple(
            Panel(
                curve.condition,
                curve.name,
                number,
                "workers",
                tuple((str(p.workers), p) for p in curve.main),
            )
            for number, curve in enumerate(curves)
        )
    firsts = {curve.condition: number for number, curve in reversed([*enumerate(curves)])}
    return tuple(
        Panel(
            condition,
            condition,
            number,
            f"with {count(only, 'worker')}",
            tuple(
                (curve.others, point)
                for curve in curves
                if curve.condition == condition
                for point in curve.main
            ),
        )
        for condition, number in sorted(firsts.items(), key=lambda first: first[1])
    )


def only_count(curves: Sequence[Curve]) -> int | None:
    """Return the worker count if all points of all curves have the same."""
    counts = {p.workers for curve in curves for p in (*curve.main, *curve.repeated)}
    return counts.pop() if len(counts) == 1 else None


def curves_of(suite: Suite) -> tuple[Curve, ...]:
    """Return the suite's lines, condition by condition, in the order of measuring.

    A series that is no sweep, as off against on, is drawn only where there is no sweep.
    """
    return tuple(
        curve
        for points in by_condition(summarize(suite)).values()
        for curve in _of_condition(points, suite.procedure.tolerance)
    )


def shows_warm(curves: Sequence[Curve]) -> bool:
    """Say whether the rates are those of later epochs; false where only cold ones were measured."""
    points = [point for curve in curves for point in (*curve.main, *curve.repeated)]
    kinds = {point.kind for point in points if point.rates is not None}
    return kinds != {"cold_only"}


def _of_condition(points: Sequence[Point], tolerance: float) -> list[Curve]:
    parts = {point.benchmark.part for point in points}
    main_part = next((part for part in _MAIN_PARTS if part in parts), None)
    lines = lines_of(points)
    main = [line for line in lines if main_part in (None, line.part)]
    repeated = [line for line in lines if main_part == "sweep" and line.part == "repeated"]
    return [
        _curve(line, [other for other in repeated if _joins(other, line)], tolerance)
        for line in main
    ]


def _curve(line: Group, repeated: Sequence[Group], tolerance: float) -> Curve:
    again = tuple(point for group in repeated for point in group.points)
    rated = [point for point in (*line.points, *again) if point.rates is not None]
    if any(point.kind != "cold_only" for point in rated):
        rated = [point for point in rated if point.kind != "cold_only"]
    best = by_count(rated)
    return Curve(
        condition=line.condition,
        others=line.others,
        main=line.points,
        repeated=again,
        best=best,
        found=plateau(best, tolerance) if len(best) > 1 else None,
    )


def _joins(repeated: Group, line: Group) -> bool:
    """Say whether a repeated series was measured with the settings of the line."""
    a, b = repeated.points[-1].benchmark, line.points[-1].benchmark
    return all(NONE in (x := setting.of(a), y := setting.of(b)) or x == y for setting in SETTINGS)
