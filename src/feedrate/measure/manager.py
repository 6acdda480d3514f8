"""The manager: runs benchmarks in rotated order, keeps the suite, saves it after every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec

from feedrate.errors import Interrupted, MeasuringTimeout, NothingMeasured, OutputError, TargetError
from feedrate.measure import wire
from feedrate.measure.executor import Executor, Outcome
from feedrate.plan.need import objection, predict
from feedrate.plan.sweep import rotated
from feedrate.records import Benchmark, Run, Suite
from feedrate.settings import Budget


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which run it is of those that are planned; all numbers count from 1.

    ``position`` of ``total`` counts within one series, ``part`` of ``parts`` the series.
    """

    position: int
    total: int
    part: int = 1
    parts: int = 1


class Watcher:
    """Told of everything as it happens. This one shows nothing; others show what they override."""

    def run_started(
        self, place: Place, benchmark: Benchmark, repeat: int, left: float | None
    ) -> None:
        """Take note of a run, with the seconds that it and the rest of its part may take."""

    def message(self, message: wire.Message) -> None:
        """Take note of a message from the child."""

    def run_ended(self, benchmark: Benchmark, run: Run) -> None:
        """Take note of a run's figures or error."""

    def skipped(self, benchmark: Benchmark) -> None:
        """Take note of a benchmark that is not tried; ``benchmark.skipped`` says why."""

    def not_saved(self, error: OutputError) -> None:
        """Take note that a save failed; measuring goes on, and the next save is tried."""


class Manager:
    """Measures benchmarks into one suite.

    Args:
        suite: metadata and procedure; benchmarks are added to it.
        executor: runs the children.
        spec_for: what a child is told for a benchmark.
        free: what the machine can give right now; asked before each setting.
        save: keeps the suite; called after each run.
        watcher: told of everything as it happens.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        executor: Executor,
        spec_for: Callable[[Benchmark], wire.ChildSpec],
        free: Callable[[], Budget],
        save: Callable[[Suite], None],
        watcher: Watcher,
    ) -> None:
        self.suite = suite
        self._executor = executor
        self._spec_for = spec_for
        self._free = free
        self._save = save
        self._watcher = watcher
        self._position = 0
        self._durations: list[float] = []

    def measure(
        self, benchmarks: Sequence[Benchmark], repeats: int, *, part: int = 1, parts: int = 1
    ) -> None:
        """Add the benchmarks to the suite and measure each ``repeats`` times, in rotated order.

        ``part`` of ``parts`` is which series this is, for whoever watches.

        A setting that cannot fit into what is free is skipped with that sentence; one that failed
        is not tried again.

        Raises:
            TargetError: the target itself cannot be used, so no setting can.
            Interrupted: the user pressed Ctrl-C; what was measured is in ``suite`` and saved.
        """
        first = len(self.suite.benchmarks)
        self._replace(benchmarks=(*self.suite.benchmarks, *benchmarks))
        order = rotated(len(benchmarks), repeats)
        for done, (repeat, index) in enumerate(order):
            at = first + index
            benchmark = self.suite.benchmarks[at]
            if benchmark.skipped or any(run.error for run in benchmark.runs):
                continue
            if reason := self._objection(benchmark):
                self._put(at, msgspec.structs.replace(benchmark, skipped=reason))
                self._watcher.skipped(self.suite.benchmarks[at])
                continue
            left = self._seconds_left([first + i for _, i in order[done:]])
            place = Place(position=done + 1, total=len(order), part=part, parts=parts)
            self._watcher.run_started(place, benchmark, repeat, left)
            self._run(at, repeat)

    def _run(self, at: int, repeat: int) -> None:
        benchmark = self.suite.benchmarks[at]
        outcome = self._executor.execute(
            self._spec_for(benchmark),
            timeout=self.suite.procedure.timeout_seconds,
            on_message=self._watcher.message,
        )
        run = make_run(outcome, position=self._position, repeat=repeat)
        error = run.error
        if error is not None and error.kind == "target":
            raise TargetError(error.sentence, details=error.traceback)
        self._position += 1
        self._durations.append(outcome.seconds)
        if outcome.ready is not None:
            self._complete_metadata(outcome.ready)
        if error is None or error.kind != "interrupted" or run.epochs:
            self._put(at, msgspec.structs.replace(benchmark, runs=(*benchmark.runs, run)))
        self.save()
        self._watcher.run_ended(self.suite.benchmarks[at], run)
        if error is not None and error.kind == "interrupted":
            raise Interrupted("interrupted")

    def save(self) -> None:
        """Keep the suite as it stands; a failure is reported and the next save tried."""
        try:
            self._save(self.suite)
        except OutputError as error:
            self._watcher.not_saved(error)

    def require_a_result(self) -> None:
        """Raise unless at least one run succeeded.

        Raises:
            MeasuringTimeout: every run was given up as hanging.
            NothingMeasured: every setting failed or was skipped.
        """
        runs = [run for benchmark in self.suite.benchmarks for run in benchmark.runs]
        if any(run.error is None for run in runs):
            return
        errors = [run.error for run in runs if run.error is not None]
        if errors:
            sentence = f"no setting could be measured: {errors[0].sentence}"
            if all(error.kind == "timeout" for error in errors):
                raise MeasuringTimeout(sentence, details=errors[0].traceback)
            raise NothingMeasured(sentence, details=errors[0].traceback)
        reasons = [b.skipped for b in self.suite.benchmarks if b.skipped]
        raise NothingMeasured(f"no setting was tried: {reasons[0] if reasons else 'none given'}")

    def _objection(self, benchmark: Benchmark) -> str | None:
        runs = [
            run
            for other in self.suite.benchmarks
            if other.condition == benchmark.condition
            for run in other.runs  # failed ones too: what ran out of memory tells most of need
        ]
        return objection(predict(benchmark.settings, runs), self._free())

    def _seconds_left(self, coming: Sequence[int]) -> float | None:
        """Estimate from the runs so far: a setting's own, else the mean of all."""
        if not self._durations:
            return None
        mean = fmean(self._durations)
        return sum(self._expected(index, mean) for index in coming)

    def _expected(self, at: int, mean: float) -> float:
        own = [run.seconds for run in self.suite.benchmarks[at].runs if run.seconds is not None]
        return fmean(own) if own else mean

    def _complete_metadata(self, ready: wire.Ready) -> None:
        metadata = self.suite.metadata
        if metadata.torch_version is not None:
            return
        self._replace(
            metadata=msgspec.structs.replace(
                metadata,
                torch_version=ready.versions.get("torch"),
                torchvision_version=ready.versions.get("torchvision"),
                numpy_version=ready.versions.get("numpy", metadata.numpy_version),
                accelerator=ready.accelerator,
                default_start_method=ready.default_start_method,
            )
        )

    def _put(self, at: int, benchmark: Benchmark) -> None:
        benchmarks = list(self.suite.benchmarks)
        benchmarks[at] = benchmark
        self._replace(benchmarks=tuple(benchmarks))

    def _replace(self, **changes: object) -> None:
        self.suite = msgspec.structs.replace(self.suite, **changes)


def make_run(outcome: Outcome, *, position: int, repeat: int) -> Run:
    """Return the record of one child."""
    first = outcome.epochs[0] if outcome.epochs else None
    used = outcome.used
    startup = used.startup_seconds if used is not None else None
    if first is not None:
        startup = first.begin_seconds + first.batch_waits[0]
    return Run(
        position=position,
        repeat=repeat,
        setup_seconds=outcome.ready.setup_seconds if outcome.ready else None,
        startup_seconds=startup,
        seconds=outcome.seconds,
        other_cpu_seconds=outcome.other_cpu_seconds,
        facts=outcome.facts,
        epochs=outcome.epochs,
        windows=outcome.windows,
        choices=outcome.choices,
        loaders=used.loaders if used is not None else (),
        training_loader=used.training_loader if used is not None else None,
        memory=outcome.snapshots,
        peaks=outcome.peaks,
        device=outcome.device,
        error=outcome.error,
    )
