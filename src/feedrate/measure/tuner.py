"""The tuner: drives a tune with the executor, keeps the suite, saves it after every run.

What comes next is decided in `feedrate.plan.tuning` from the suite alone. A child that fails costs
what it was to measure and nothing else; Ctrl-C keeps what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from feedrate.analysis.reasons import named
from feedrate.analysis.tuned import (
    BESIDE,
    EARLIER,
    LEVELS,
    LOOK,
    OWN_LABEL,
    RACE,
    RAMP,
    Tuned,
    own_settings,
    read,
)
from feedrate.analysis.wording import workers
from feedrate.errors import Interrupted, OutputError
from feedrate.measure import wire
from feedrate.measure.executor import Executor
from feedrate.measure.manager import make_run
from feedrate.measure.raised import as_raised
from feedrate.measure.tune_failure import no_loop
from feedrate.measure.tune_watcher import LOOK_WORDS, TuneWatcher
from feedrate.plan.tuning import (
    Done,
    Level,
    Limits,
    Looking,
    Ramping,
    Reason,
    Refused,
    Round,
    Step,
    next_step,
)
from feedrate.records import Benchmark, LoaderUse, Run, RunError, Suite
from feedrate.settings import LoaderSettings

STILL_VALID = 0.25
"""By how much the rate of the user's own settings may have changed since an earlier tune, for its
search to be taken over: beyond it the machine, the data or the script is another."""


class Tuner:
    """Tunes one target into one suite.

    Args:
        suite: metadata and procedure; benchmarks are added to it.
        executor: runs the children.
        spec: what every child is told; its settings and session are filled in.
        limits: what may be used now; asked before each step.
        loader: the training loader's number, where the user names it.
        earlier: the suite of an earlier tune of the same target, to be confirmed.
        save: keeps the suite; called after each run.
        watcher: told of everything as it happens.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        executor: Executor,
        spec: wire.ChildSpec,
        limits: Callable[[], Limits],
        loader: int | None = None,
        earlier: Suite | None = None,
        save: Callable[[Suite], None],
        watcher: TuneWatcher,
    ) -> None:
        self.suite = suite
        self._executor = executor
        self._spec = spec
        self._limits = limits
        self._loader = loader
        self._earlier = earlier
        self._save = save
        self._watcher = watcher
        self._position = 0

    def tune(self) -> Reason:
        """Measure until the course is over; return why it is.

        Raises:
            TargetError: the target itself cannot be used.
            NothingMeasured, MeasuringTimeout: the look at the script as it is failed.
            Interrupted: the user pressed Ctrl-C; what was measured is in ``suite`` and saved.
        """
        while True:
            step = next_step(read(self.suite), self._limits())
            if isinstance(step, Done):
                self._note_refused(step.refused)
                return step.reason
            self._take(step)

    def save(self) -> None:
        """Keep the suite as it stands; a failure is reported and the next save tried."""
        try:
            self._save(self.suite)
        except OutputError as error:
            self._watcher.not_saved(error)

    def _take(self, step: Step) -> None:
        if isinstance(step, Looking):
            session: wire.Session = wire.Look(seconds=step.seconds, loader=self._loader)
            run = self._run(LOOK_WORDS, LOOK, None, session)
            self._check_look(run)
            self._take_over_earlier()
            return
        tuned = read(self.suite)
        assert tuned.use is not None, "nothing follows a look without a loader"
        number, trained = tuned.use.number, tuned.use.optimizer_steps > 0
        if isinstance(step, Ramping):
            limits = self._limits()
            session = wire.Ramp(
                seconds=step.seconds,
                loader=number,
                most_workers=step.most_workers,
                tolerance=self.suite.procedure.tolerance,
                ram_bytes=limits.free.ram_bytes,
                shm_bytes=limits.free.shm_bytes,
                trained=trained,
            )
            self._run("workers one after another", RAMP, None, session)
            return
        if isinstance(step, Level):
            what = workers(step.settings.num_workers)
            session = _static(tuned.use, step.seconds)
            self._run(what, LEVELS, step.settings, session)
            return
        if isinstance(step, Round):
            self._enter(step, tuned)
            session = _static(tuned.use, step.seconds)
            what = _label(step.settings, tuned.own)
            self._run(what, step.part, step.settings, session, repeat=step.repeat)

    def _enter(self, step: Round, tuned: Tuned) -> None:
        """Add those that take part to the suite, before the first of them runs."""
        if any(each.part == step.part for each in self.suite.benchmarks):
            return
        entries = tuple(
            Benchmark(label=_label(settings, tuned.own), settings=settings, part=step.part)
            for settings in step.entries
        )
        self._replace(benchmarks=(*self.suite.benchmarks, *entries))
        self._note_refused(step.refused)

    def _note_refused(self, refused: Sequence[Refused]) -> None:
        """Add what the limits do not allow, with the reason."""
        left_out = tuple(
            Benchmark(
                label=named(each.settings), settings=each.settings, part=RACE, skipped=each.reason
            )
            for each in refused
        )
        self._replace(benchmarks=(*self.suite.benchmarks, *left_out))

    def _run(
        self,
        what: str,
        part: str,
        settings: LoaderSettings | None,
        session: wire.Session,
        repeat: int = 0,
    ) -> Run:
        in_rounds = part in (RACE, BESIDE)
        shown = f"{what}, round {repeat + 1}" if in_rounds else what
        tuned = read(self.suite)
        self._watcher.step_started(shown, tuned.spent)
        # the user's own settings are those of a loader that nothing was set on
        set_on = None if settings == tuned.own else settings
        outcome = self._executor.execute(
            msgspec.structs.replace(self._spec, settings=set_on, session=session),
            timeout=self.suite.procedure.timeout_seconds,
            on_message=self._watcher.message,
        )
        run = make_run(outcome, position=self._position, repeat=repeat)
        self._position += 1
        if outcome.ready is not None:
            self._complete_metadata(outcome.ready)
        error = run.error
        # of a race only whole runs count; of a search each window does
        if error is None or error.kind != "interrupted" or (run.windows and not in_rounds):
            self._keep(run, what, part, settings)
        if self.suite.benchmarks:  # else an interrupted look had nothing to keep
            self.save()
        self._watcher.step_ended(shown, run)
        if error is not None and error.kind == "interrupted":
            raise Interrupted("interrupted")
        return run

    def _keep(self, run: Run, what: str, part: str, settings: LoaderSettings | None) -> None:
        for at, benchmark in enumerate(self.suite.benchmarks):
            if benchmark.part == part and benchmark.settings == settings:
                made = msgspec.structs.replace(benchmark, runs=(*benchmark.runs, run))
                rest = self.suite.benchmarks
                self._replace(benchmarks=(*rest[:at], made, *rest[at + 1 :]))
                return
        made = Benchmark(label=what, part=part, settings=settings or _found_in(run), runs=(run,))
        self._replace(benchmarks=(*self.suite.benchmarks, made))

    def _check_look(self, run: Run) -> None:
        """Return if the look found a loop to tune.

        A script that fails later than that is tuned all the same, and the failure told.
        """
        tuned = read(self.suite)
        error = run.error
        if tuned.use is not None and tuned.look is not None:
            if error is not None:
                self._watcher.note(f"the script failed after it was measured: {error.sentence}")
            return
        if error is None:
            error = RunError(kind="no_batches", sentence=no_loop(run))
        raise as_raised(error, "nothing could be measured")

    def _take_over_earlier(self) -> None:
        """Add what an earlier tune searched, unless the loop is another one by now."""
        if self._earlier is None:
            return
        before, now = read(self._earlier), read(self.suite)
        if before.look is None or now.look is None or not before.levels:
            return
        if before.own != now.own or abs(now.look.rate / before.look.rate - 1) > STILL_VALID:
            self._watcher.note(
                "an earlier tune found the loop different from now, so it is searched again"
            )
            return
        if now.step_bound:
            return
        day = self._earlier.metadata.started_at.partition("T")[0]
        runs = (*before.ramp_runs, *(run for b in before.level_runs for run in b.runs))
        own = self.suite.benchmarks[0].settings
        made = Benchmark(label=f"searched on {day}", part=EARLIER, settings=own, runs=runs)
        self._watcher.note(f"the search of {day} is taken over and confirmed; --fresh repeats it")
        self._replace(benchmarks=(*self.suite.benchmarks, made))

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

    def _replace(self, **changes: object) -> None:
        self.suite = msgspec.structs.replace(self.suite, **changes)


def _static(use: LoaderUse, seconds: float) -> wire.Static:
    return wire.Static(
        seconds=seconds,
        loader=use.number,
        trained=use.optimizer_steps > 0,
        epoch_batches=use.ended_batches,
    )


def _found_in(run: Run) -> LoaderSettings:
    """Return the training loader's own settings, as far as the run found it."""
    uses = (use.facts for use in run.loaders if use.number == run.training_loader)
    facts = next(uses, run.facts)
    return own_settings(facts) if facts is not None else LoaderSettings(num_workers=0)


def _label(settings: LoaderSettings, own: LoaderSettings | None) -> str:
    if settings.loader == "feedrate":
        return f"feedrate.DataLoader, {named(settings)}"
    return OWN_LABEL if settings == own else named(settings)
