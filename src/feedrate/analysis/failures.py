"""What was asked for and has no figures: settings that failed, settings that were not tried."""

from __future__ import annotations

from collections.abc import Sequence

from feedrate.analysis.conditions import Condition, finding
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import figure, listed, sentence, some_of
from feedrate.records import Finding


def failed(condition: Condition) -> Finding | None:
    """Name the settings with failed runs, and the first cause."""
    affected = [point for point in condition.points if point.errors]
    if not affected:
        return None
    tried = [point for point in condition.points if point.benchmark.runs]
    labels = some_of([_named(point) for point in affected], len(tried))
    cause = _ended(_first_cause(affected))
    partly = ", wholly or in part" if any(point.runs for point in affected) else ""
    return finding(
        condition,
        "sweep.failed",
        f"{_share(len(affected), len(tried))} failed{partly}: {labels}. The first cause: {cause}",
        severity="warning",
        evidence=[
            figure("settings with failed runs", len(affected), "settings"),
            figure("failed runs", sum(len(point.errors) for point in affected), "runs"),
        ],
        remedy="The whole traceback: feedrate report FILE -v, or table(verbose=True)."
        if any(error.traceback for point in affected for error in point.errors)
        else "",
    )


def skipped(condition: Condition) -> Finding | None:
    """Name the settings that were not tried, and why the first of them was not."""
    left = [point for point in condition.points if point.benchmark.skipped is not None]
    if not left:
        return None
    labels = listed(point.benchmark.label for point in left)
    reason = _ended(sentence(left[0].benchmark.skipped or ""))
    first = "" if len(left) == 1 else f"{left[0].benchmark.label}: "
    return finding(
        condition,
        "sweep.skipped",
        f"{_share(len(left), len(condition.points))} {'was' if len(left) == 1 else 'were'} "
        f"not tried: {labels}. {first}{reason}",
        severity="warning",
        evidence=[figure("settings not tried", len(left), "settings")],
        remedy="Free what they need and measure again, or leave them out of workers (--workers).",
    )


def _share(count: int, total: int) -> str:
    return "the only setting" if total == 1 else f"{count} of {total} settings"


def _first_cause(points: Sequence[Point]) -> str:
    failures = [
        (run.position, run.error.sentence)
        for point in points
        for run in point.benchmark.runs
        if run.error is not None
    ]
    return min(failures)[1]


def _named(point: Point) -> str:
    failures, runs = len(point.errors), len(point.benchmark.runs)
    if runs == 1:
        return point.benchmark.label
    return f"{point.benchmark.label} ({failures} of {runs} runs)"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
