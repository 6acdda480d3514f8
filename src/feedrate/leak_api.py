"""Looking for leaks from Python: what ``feedrate leaks`` does, for a script, a factory or a loader.

suite = feedrate.check_leaks(loader, step)
print(suite.table())
assert not suite.leaks
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec

from feedrate.analysis.growth import FEWEST_EPOCHS
from feedrate.analysis.leak_suite import grows, judge_leaks
from feedrate.analysis.leaks import epochs_wanted
from feedrate.analysis.suspects import suspects
from feedrate.analysis.tuned import own_settings
from feedrate.errors import (
    Interrupted,
    MissingExtra,
    OutputError,
    UsageError,
)
from feedrate.host.metadata import gather
from feedrate.measure.asked import Asked, asked, child_spec
from feedrate.measure.causes import native
from feedrate.measure.child_process import CHILD_MARK
from feedrate.measure.executor import Executor, Outcome, SubprocessExecutor
from feedrate.measure.leak_watcher import LeakWatcher
from feedrate.measure.manager import make_run
from feedrate.measure.memory_observer import MemoryObserver
from feedrate.measure.raised import as_raised
from feedrate.measure.second_pass import with_causes
from feedrate.measure.wire import Leaks
from feedrate.plan import bounds
from feedrate.records import Benchmark, Finding, Metadata, Procedure, Run, RunError, Suite
from feedrate.settings import LoaderSettings
from feedrate.shown_suite import ShownSuite

WATCH_SECONDS = 120.0
DUTY = 0.005
"""The share of the time that looking may take."""
_LABEL = "watched"


class LeakSuite(ShownSuite, frozen=True, kw_only=True):
    """A watched run that can show and save itself."""

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """The findings that say that memory, descriptors or processes grow."""
        return tuple(finding for finding in self.findings if grows(finding))

    def __repr__(self) -> str:
        """Return one line; `table` shows the whole."""
        found = ", ".join(finding.code for finding in self.leaks) or "no leak"
        return f"<LeakSuite of {self.metadata.target}: {found}; .table() shows it>"


def check_leaks(
    target: Any,
    step: Any = None,
    *,
    argv: Sequence[str] = (),
    epochs: int | None = None,
    seconds: float = WATCH_SECONDS,
    max_batches: int | None = None,
    workers: int | None = None,
    loader: int | None = None,
    step_ms: float | None = None,
    device: str = "auto",
    seed: int | None = 0,
    timeout: float = 300.0,
    memray: bool = False,
    save: Callable[[Suite], None] | None = None,
    watcher: LeakWatcher | None = None,
    executor: Executor | None = None,
) -> LeakSuite:
    """Watch a loop's memory over its epochs, and tell whether and why it grows.

    Args:
        target: a training script's path; or text, ``file.py:name`` or ``package.module:name``; or
            a loader, a dataset, or a function that returns one or ``(loader, step)``.
        step: one training step, ``step(batch)``, or its name beside a target given as text.
        argv: arguments of a script.
        epochs: watch no more epochs than this; by default as many as the verdict needs.
        seconds: watch no longer than this.
        max_batches: end each epoch of a function's loader after so many.
        workers: use so many workers instead of the loader's own number.
        loader: the training loader's number, where it is not found by its optimizer steps.
        step_ms: simulate a step of so many milliseconds where there is none.
        device: where batches of a target without a step are copied to.
        seed: seeds random, NumPy and torch before a factory is called; a script is left alone.
        timeout: seconds without a batch after which it is given up.
        memray: where a process grows outside Python objects, look for the line with memray.
        save: called with the suite once it was watched.
        watcher: told of everything as it happens.
        executor: runs the child.

    Returns:
        The suite, with its findings; ``leaks`` are those that need action.

    Raises:
        UsageError: an option that cannot be meant.
        MissingExtra: ``memray`` was asked for and is not installed.
        TargetError: the target cannot be used.
        NothingMeasured, MeasuringTimeout: there is nothing to judge, or the target failed before
            anything was seen to grow; ``error.suite`` holds what was seen.
        Interrupted: Ctrl-C; ``error.suite`` holds what was seen.
    """
    if os.environ.get(CHILD_MARK):
        raise UsageError(
            "feedrate.check_leaks was called again by the target that it watches; put the call "
            "under if __name__ == '__main__':"
        )
    what = asked(target, step, argv)
    return check_asked(
        what,
        epochs=epochs,
        seconds=seconds,
        max_batches=max_batches,
        workers=workers,
        loader=loader,
        step_ms=step_ms,
        device=device,
        seed=None if what.script is not None else seed,
        timeout=timeout,
        memray=memray,
        save=save,
        watcher=watcher,
        executor=executor,
    )


def check_asked(
    what: Asked,
    *,
    epochs: int | None,
    seconds: float,
    max_batches: int | None,
    workers: int | None,
    loader: int | None,
    step_ms: float | None,
    device: str,
    seed: int | None,
    timeout: float,
    duty: float = DUTY,
    memray: bool = False,
    save: Callable[[Suite], None] | None = None,
    watcher: LeakWatcher | None = None,
    executor: Executor | None = None,
) -> LeakSuite:
    """Watch what `asked` has read, as `check_leaks` does; looks take a share ``duty`` of the time.

    A watch that is too short for it takes more; what it was is in the suite.
    """
    procedure = Procedure(
        epochs=FEWEST_EPOCHS if epochs is None else epochs,
        repeats=1,
        max_batches=max_batches,
        step_seconds=bounds.step_seconds(step_ms),
        device=device,
        timeout_seconds=timeout,
        budget_seconds=seconds,
    )
    bounds.check(procedure, seed)
    bounds.check_seconds("seconds", seconds)
    bounds.check_least(0, loader=loader, workers=workers)
    if max_batches is not None and what.script is not None:
        raise UsageError(
            "max_batches cuts the epochs of a function's loader; a script ends its own: bound the "
            "watch with seconds (--seconds)"
        )
    if memray and not native.is_installed():
        raise MissingExtra(
            "memory that C code keeps is found with memray, for Linux and macOS: run pip install "
            "'feedrate[memray]', or leave memray (--memray) out"
        )
    metadata = gather(
        target=what.shown,
        argv=tuple(sys.argv[1:]),
        seed=seed,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    watcher = watcher or LeakWatcher()
    explainer = executor or SubprocessExecutor()
    executor = executor or SubprocessExecutor(
        lambda: MemoryObserver(epochs_wanted, FEWEST_EPOCHS, duty, watcher.looked)
    )
    asked_for = Leaks(
        seconds=seconds,
        fewest=FEWEST_EPOCHS,
        loader=loader,
        epochs=epochs,
        max_batches=max_batches,
        duty=duty,
    )
    settings = None if workers is None else LoaderSettings(num_workers=workers)
    spec = msgspec.structs.replace(
        child_spec(what, step_seconds=procedure.step_seconds, device=device, seed=seed),
        settings=settings,
        session=asked_for,
    )
    outcome = executor.execute(spec, timeout=timeout, on_message=watcher.message)
    suite = answered(_suite(metadata, procedure, outcome))
    is_ended = False
    try:
        if outcome.watch is not None and outcome.error is None and suspects(outcome.watch):
            watcher.explaining()
            watch, is_ended = with_causes(
                outcome.watch,
                spec,
                loader=outcome.used.training_loader if outcome.used is not None else None,
                executor=explainer,
                timeout=timeout,
                on_message=watcher.message,
                memray=memray,
            )
            suite = answered(msgspec.structs.replace(suite, watch=watch))
    except KeyboardInterrupt:
        is_ended = True
    if suite.watch is not None:
        try:
            (save or (lambda _: None))(suite)
        except OutputError as error:
            watcher.not_saved(error)
    _check_outcome(suite, outcome.error, watcher)
    if is_ended:
        raise Interrupted("interrupted while the cause was sought; the verdict stands", suite=suite)
    return as_leak_suite(suite)


def answered(suite: Suite) -> Suite:
    """Return the suite of a watch with its findings computed anew."""
    return msgspec.structs.replace(suite, findings=judge_leaks(suite))


def as_leak_suite(suite: Suite) -> LeakSuite:
    """Return the same suite as one that can show and save itself."""
    return LeakSuite(**{name: getattr(suite, name) for name in suite.__struct_fields__})


def _suite(metadata: Metadata, procedure: Procedure, outcome: Outcome) -> Suite:
    run = make_run(outcome, position=0, repeat=0)
    ready = outcome.ready
    if ready is not None:
        metadata = msgspec.structs.replace(
            metadata,
            torch_version=ready.versions.get("torch"),
            torchvision_version=ready.versions.get("torchvision"),
            numpy_version=ready.versions.get("numpy", metadata.numpy_version),
            accelerator=ready.accelerator,
            default_start_method=ready.default_start_method,
        )
    watched = Benchmark(label=_LABEL, settings=_settings(run), part=_LABEL, runs=(run,))
    return Suite(
        metadata=metadata,
        procedure=procedure,
        kind="leaks",
        benchmarks=(watched,),
        watch=outcome.watch,
    )


def _settings(run: Run) -> LoaderSettings:
    uses = (use.facts for use in run.loaders if use.number == run.training_loader)
    facts = next(uses, run.facts)
    return own_settings(facts) if facts is not None else LoaderSettings(num_workers=0)


def _check_outcome(suite: Suite, error: RunError | None, watcher: LeakWatcher) -> None:
    """Return if there is a verdict; a target that failed after that is only told.

    Raises:
        FeedrateError: there is none, or the user ended it.
    """
    if error is not None and error.kind == "interrupted":
        raise Interrupted("interrupted", suite=suite)
    if suite.watch is None or not any(look.items for look in suite.watch.looks):
        none = RunError(kind="no_batches", sentence="no batch came")
        raise as_raised(error or none, "nothing could be watched", suite)
    if error is None:
        return
    if not any(map(grows, suite.findings)):
        # what could not go on has not shown that it could go on for ever
        raise as_raised(error, "not decided, for the target failed meanwhile", suite)
    watcher.note(f"the target failed while it was watched: {error.sentence}")
