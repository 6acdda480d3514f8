"""From a suite to one `Point` for each benchmark: the figures that tables and verdicts use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from feedrate.analysis import runs as of
from feedrate.analysis.stats import Ratio, Summary, ratio, summary
from feedrate.records import Benchmark, MemoryKind, Peaks, Run, RunError, Suite

PointKind = Literal["warm", "restarted", "cold_only"]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one benchmark. ``None`` where no successful run tells.

    Each `Summary` has one value for each successful run that has the figure, in the order of the
    runs.

    Attributes:
        benchmark: what was measured.
        kind: "warm" where later epochs run on the same workers (0 workers, or persistent ones),
            "restarted" where workers are started again for each epoch, "cold_only" where only one
            epoch was measured.
        rates: items/s over all epochs after the first; of the first where ``kind`` is "cold_only".
        repeats: the repeat that each value of ``rates`` is from.
        cold_rates: items/s of the first epoch.
        startup: seconds from ``iter()`` to the first batch of the first epoch.
        wait_share: share of the time blocked in ``next()``, 0 to 1, in later epochs (else the
            first). Near 0 the loader keeps up; near 1 the loop does nothing but wait.
        step_seconds: median seconds of a step, in later epochs (else the first).
        cpu_per_batch: CPU seconds for a batch, main process and workers together, in later epochs
            (else the first).
        epoch_seconds: mean seconds of the later epochs, as measured.
        cold_seconds: seconds of the first epoch, as measured.
        memory_kind: what the three memory peaks are: "pss", or "rss" where shared pages are
            counted once for each process.
        peak_main, peak_workers, peak_total: highest bytes over the runs of the main process, of
            all workers together, and of both at one moment.
        peak_shm: highest bytes in ``/dev/shm`` above what was there before.
        peak_descriptors: highest number of open descriptors, main process and workers together.
        errors: why runs failed, in the order of the runs.
    """

    benchmark: Benchmark
    kind: PointKind
    rates: Summary | None = None
    repeats: tuple[int, ...] = ()
    cold_rates: Summary | None = None
    startup: Summary | None = None
    wait_share: Summary | None = None
    step_seconds: Summary | None = None
    cpu_per_batch: Summary | None = None
    epoch_seconds: Summary | None = None
    cold_seconds: Summary | None = None
    memory_kind: MemoryKind | None = None
    peak_main: int | None = None
    peak_workers: int | None = None
    peak_total: int | None = None
    peak_shm: int | None = None
    peak_descriptors: int | None = None
    errors: tuple[RunError, ...] = ()

    @property
    def workers(self) -> int:
        """The worker count."""
        return self.benchmark.settings.num_workers

    @property
    def rate(self) -> float:
        """The median of ``rates`` in items/s; 0 where there is none."""
        return self.rates.median if self.rates is not None else 0.0

    @property
    def runs(self) -> tuple[Run, ...]:
        """The successful runs."""
        return tuple(run for run in self.benchmark.runs if of.succeeded(run))


def summarize(suite: Suite) -> tuple[Point, ...]:
    """Return one point for each benchmark, in the suite's order, failed and skipped ones too."""
    return tuple(_point(benchmark) for benchmark in suite.benchmarks)


def by_condition(points: Iterable[Point]) -> dict[str, tuple[Point, ...]]:
    """Return the points of each condition, both in the order in which they come."""
    grouped: dict[str, tuple[Point, ...]] = {}
    for point in points:
        name = point.benchmark.condition
        grouped[name] = (*grouped.get(name, ()), point)
    return grouped


def comparable(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points with a rate of later epochs; where there are none, of first epochs.

    The two are never mixed: a first epoch has the start of its workers in it.
    """
    rated = tuple(point for point in points if point.rates is not None)
    return tuple(point for point in rated if point.kind != "cold_only") or rated


def compare_rates(a: Point, b: Point) -> Ratio | None:
    """Return the rate of ``a`` over that of ``b``; ``None`` where one has none.

    Paired where both are of the same series and the same repeats succeeded in both.
    """
    if a.rates is None or b.rates is None:
        return None
    neighbours = (
        a.benchmark.condition == b.benchmark.condition
        and a.benchmark.part == b.benchmark.part
        and a.repeats == b.repeats
    )
    return ratio(a.rates.values, b.rates.values, paired=neighbours)


def _point(benchmark: Benchmark) -> Point:
    good = [run for run in benchmark.runs if of.succeeded(run)]
    # A run that ended early by itself has no later epoch; it must not be mixed into the others.
    settled = [run for run in good if of.later_epochs(run)] or good
    peaks = [run.peaks for run in benchmark.runs if run.peaks is not None]
    rated = [(run.repeat, of.rate(of.settled_epochs(run))) for run in settled]
    with_workers = benchmark.settings.num_workers > 0
    return Point(
        benchmark=benchmark,
        kind=_kind(benchmark, good),
        rates=_summary(settled, lambda run: of.rate(of.settled_epochs(run))),
        repeats=tuple(repeat for repeat, rate in rated if rate is not None),
        cold_rates=_summary(good, lambda run: of.rate(run.epochs[:1])),
        startup=_summary(good, lambda run: run.startup_seconds),
        wait_share=_summary(settled, lambda run: of.wait_share(of.settled_epochs(run))),
        step_seconds=_summary(settled, lambda run: of.step_seconds(of.settled_epochs(run))),
        cpu_per_batch=_summary(
            settled,
            lambda run: of.cpu_per_batch(of.settled_epochs(run), with_workers=with_workers),
        ),
        epoch_seconds=_summary(good, lambda run: of.mean_seconds(of.later_epochs(run))),
        cold_seconds=_summary(good, lambda run: of.mean_seconds(run.epochs[:1])),
        memory_kind=peaks[0].memory_kind if peaks else None,
        peak_main=_highest(peaks, lambda peak: peak.main_bytes),
        peak_workers=_highest(peaks, lambda peak: peak.worker_bytes),
        peak_total=_highest(peaks, lambda peak: peak.total_bytes),
        peak_shm=_highest(peaks, lambda peak: peak.shm_bytes),
        peak_descriptors=_highest(peaks, _descriptors),
        errors=tuple(run.error for run in benchmark.runs if run.error is not None),
    )


def _kind(benchmark: Benchmark, good: list[Run]) -> PointKind:
    if good and not any(of.later_epochs(run) for run in good):
        return "cold_only"
    if benchmark.settings.num_workers == 0:
        return "warm"
    facts = [run.facts for run in good if run.facts is not None]
    # What the loader really had, before what was asked for.
    persistent = facts[0].persistent_workers if facts else benchmark.settings.persistent_workers
    return "warm" if persistent else "restarted"


def _summary(good: list[Run], figure: Callable[[Run], float | None]) -> Summary | None:
    values = (figure(run) for run in good)
    return summary([value for value in values if value is not None])


def _highest(peaks: list[Peaks], figure: Callable[[Peaks], int | None]) -> int | None:
    values = (figure(peak) for peak in peaks)
    return max((value for value in values if value is not None), default=None)


def _descriptors(peak: Peaks) -> int | None:
    if peak.main_descriptors is None or (peak.workers and peak.worker_descriptors is None):
        return None
    return peak.main_descriptors + (peak.worker_descriptors or 0)
