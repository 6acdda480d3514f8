"""Whether the measuring itself can be trusted: findings of the family ``stability``.

After the checks of pyperf (``_checks.py``) and hyperfine (``outlier_detection.rs``). A warning
only where a figure would be another without what was found; else the finding is for information,
because medians and rotated order already take care of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from feedrate.analysis.conditions import (
    Condition,
    again_as_published,
    finding,
    has_fixed_protocol,
)
from feedrate.analysis.outliers import first_stands_out, outliers
from feedrate.analysis.runs import settled_epochs
from feedrate.analysis.stats import ENOUGH_RUNS, LEVEL, summary
from feedrate.analysis.summary import Point, summarize
from feedrate.analysis.wording import figure, median_of, percent, some_of
from feedrate.records import Evidence, Finding, Run, Severity, Suite
from feedrate.units import seconds

SHORT_SECONDS = 0.5
BUSY_SHARE = 0.1
FEWEST_FOR_DRIFT = 8


def of_condition(condition: Condition) -> tuple[Finding, ...]:
    """Return what stands out among the runs of one condition."""
    checks = (_slow_first_run, _outliers, _short_windows)
    return tuple(found for check in checks if (found := check(condition)) is not None)


def of_suite(suite: Suite) -> tuple[Finding, ...]:
    """Return what concerns all runs of the suite: drift, and a busy machine."""
    checks = (_drift, _machine_busy)
    return tuple(found for check in checks if (found := check(suite)) is not None)


class _Odd(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a point that stand out: the furthest one's share of the median, and their effect."""

    point: Point
    count: int
    share: float
    shift: float


def _slow_first_run(condition: Condition) -> Finding | None:
    odd = [
        _odd(point, (0,))
        for point in condition.points
        if point.rates and first_stands_out(point.rates.values, condition.tolerance)
    ]
    if not odd:
        return None
    worst = min(odd, key=lambda each: each.share)
    return finding(
        condition,
        "stability.slow_first_run",
        f"the first run of {_labels(odd, condition)} stands out: {percent(1 - worst.share)} "
        f"below the median{'' if len(odd) == 1 else ' at most'}.",
        severity=_severity(odd, condition),
        evidence=_evidence(odd),
        remedy="Something was still cold, such as the page cache or the CPU's clock. Measure "
        f"again while it is warm{_more_repeats(condition)}.",
    )


def _outliers(condition: Condition) -> Finding | None:
    odd = []
    for point in condition.points:
        if point.rates is None:
            continue
        values, tolerance = point.rates.values, condition.tolerance
        slow_first = first_stands_out(values, tolerance)
        found = [i for i in outliers(values, tolerance) if i > 0 or not slow_first]
        if found:
            odd.append(_odd(point, found))
    if not odd:
        return None
    count = sum(each.count for each in odd)
    worst = max(odd, key=lambda each: abs(each.share - 1))
    return finding(
        condition,
        "stability.outliers",
        f"{count} run{' stands' if count == 1 else 's stand'} out from the others of "
        f"{_labels(odd, condition)}, {percent(abs(worst.share - 1))} from the median"
        f"{'' if count == 1 else ' at most'}.",
        severity=_severity(odd, condition),
        evidence=_evidence(odd),
        remedy=f"Close other programs and measure again{_more_repeats(condition)}.",
    )


def _short_windows(condition: Condition) -> Finding | None:
    measured = [(point, _measured_seconds(point)) for point in condition.points if point.runs]
    short = [(point, spent) for point, spent in measured if spent < SHORT_SECONDS]
    if not short:
        return None
    shortest = min(spent for _, spent in short)
    return finding(
        condition,
        "stability.short_windows",
        f"the rates of {some_of([point.benchmark.label for point, _ in short], len(measured))} "
        f"come from short measurements, {seconds(shortest)} at the least.",
        severity="warning",
        evidence=[
            figure(f"measured time of {point.benchmark.label}", spent, "s")
            for point, spent in short
        ],
        remedy=_longer(condition, (run for point, _ in short for run in point.runs)),
    )


def _measured_seconds(point: Point) -> float:
    """Return the seconds behind one value of the rate."""
    return median(sum(epoch.seconds for epoch in settled_epochs(run)) for run in point.runs)


def _more_repeats(condition: Condition) -> str:
    if condition.is_fixed:
        return ""
    return "; more repeats (--repeats) make one run count for less"


def _longer(condition: Condition, runs: Iterable[Run]) -> str:
    if condition.is_fixed:
        return again_as_published(condition.metadata)
    if all(epoch.complete for run in runs for epoch in run.epochs):
        return "Measure more of these short epochs: raise epochs (--epochs)."
    return "Measure more batches: raise max_batches (--max-batches)."


def _drift(suite: Suite) -> Finding | None:
    """Theil–Sen slope of each run's rate, relative to its benchmark's median, over its position.

    Sen, Estimates of the Regression Coefficient Based on Kendall's Tau, JASA 1968.
    """
    places, rates = _relative_rates(suite)
    if len(rates) < FEWEST_FOR_DRIFT or len(set(places)) < 2:
        return None
    from scipy.stats import theilslopes  # as in `stats`: not before it is needed

    slope, _, low, high = theilslopes(rates, places, alpha=LEVEL)
    length = max(places) - min(places)
    total = float(slope) * length
    if not (low > 0 or high < 0) or abs(total) <= suite.procedure.tolerance:
        return None
    return Finding(
        code="stability.drift",
        severity="warning",
        title=f"The machine became {'faster' if total > 0 else 'slower'} while it was measured: "
        f"rates changed by {percent(total)} from the first run to the last.",
        evidence=(
            Evidence(
                name="change of the rates from the first run to the last",
                value=total,
                unit="share",
                low=float(low) * length,
                high=float(high) * length,
            ),
        ),
        remedy="Settings that were repeated in rotated order can still be compared; single runs "
        f"cannot. Let the machine settle and measure again{_with_repeats(suite)}.",
    )


def _with_repeats(suite: Suite) -> str:
    if has_fixed_protocol(suite.metadata):
        return ""
    return f" with {ENOUGH_RUNS} repeats (--repeats {ENOUGH_RUNS})"


def _relative_rates(suite: Suite) -> tuple[list[int], list[float]]:
    places: list[int] = []
    rates: list[float] = []
    for point in summarize(suite):
        if point.rates is None or point.rates.n < 2:
            continue
        position = {run.repeat: run.position for run in point.runs}
        places += [position[repeat] for repeat in point.repeats]
        rates += [value / point.rate for value in point.rates.values]
    return places, rates


def _machine_busy(suite: Suite) -> Finding | None:
    shares = summary(
        [
            run.other_cpu_seconds / (run.seconds * suite.metadata.usable_cpus)
            for benchmark in suite.benchmarks
            for run in benchmark.runs
            if run.other_cpu_seconds is not None and run.seconds
        ]
    )
    if shares is None or shares.median <= BUSY_SHARE:
        return None
    used = median_of("share of the usable CPUs that others took", shares, "share")
    return Finding(
        code="stability.machine_busy",
        severity="warning",
        title=f"Other programs took {percent(shares.median)} of the usable CPUs while this was "
        "measured.",
        evidence=(used,) if used is not None else (),
        remedy="Close them and measure again; until then rates are too low, those with many "
        "workers the most.",
    )


def _odd(point: Point, indices: Sequence[int]) -> _Odd:
    values = point.rates.values if point.rates is not None else ()
    others = [value for i, value in enumerate(values) if i not in indices]
    furthest = max((values[i] for i in indices), key=lambda value: abs(value - point.rate))
    return _Odd(
        point=point,
        count=len(indices),
        share=furthest / point.rate,
        shift=abs(median(others) / point.rate - 1),
    )


def _severity(odd: Sequence[_Odd], condition: Condition) -> Severity:
    return "warning" if any(each.shift > condition.tolerance for each in odd) else "info"


def _labels(odd: Sequence[_Odd], condition: Condition) -> str:
    measured = sum(point.rates is not None for point in condition.points)
    return some_of([each.point.benchmark.label for each in odd], measured)


def _evidence(odd: Sequence[_Odd]) -> list[Evidence]:
    return [
        figure(f"rate over the median, {each.point.benchmark.label}", each.share, "ratio")
        for each in odd
    ]
