"""Tuning from Python: what ``feedrate tune`` does, for a script, a factory or a loader.

suite = feedrate.tune(loader, step, budget=30)
print(suite.table())
print(suite.recommendation)
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import msgspec

from feedrate.analysis.tuned import read
from feedrate.analysis.tuning import judge, recommend
from feedrate.errors import FeedrateError, Interrupted, UsageError
from feedrate.host.metadata import gather
from feedrate.measure.allowed import allowed
from feedrate.measure.asked import Asked, asked, child_spec
from feedrate.measure.child_process import CHILD_MARK, child_environment
from feedrate.measure.executor import Executor, SubprocessExecutor
from feedrate.measure.fork_server import ForkServer
from feedrate.measure.tune_watcher import TuneWatcher
from feedrate.measure.tuner import Tuner
from feedrate.plan import bounds
from feedrate.plan.race import ROUNDS
from feedrate.records import Metadata, Procedure, Suite
from feedrate.settings import ALLOWED, Allowed
from feedrate.shown_suite import ShownSuite
from feedrate.store.profiles import content_hash, load_profile, profile_key, save_profile

BUDGET_SECONDS = 60.0


class TuneSuite(ShownSuite, frozen=True, kw_only=True):
    """A measured tune that can show and save itself; ``recommendation`` is ``None`` to keep."""

    def __repr__(self) -> str:
        """Return one line; `table` shows the whole."""
        advised = self.recommendation
        found = advised.line if advised is not None else "keep the settings"
        return f"<TuneSuite of {self.metadata.target}: {found}; .table() shows it>"


def tune(
    target: Any,
    step: Any = None,
    budget: float = BUDGET_SECONDS,
    *,
    argv: Sequence[str] = (),
    loader: int | None = None,
    max_workers: int | None = None,
    max_ram: int | None = None,
    max_shm: int | None = None,
    tolerance: float = 0.03,
    step_ms: float | None = None,
    device: str = "auto",
    seed: int | None = 0,
    timeout: float = 300.0,
    allow: Sequence[str] = (),
    fresh: bool = False,
    save: Callable[[Suite], None] | None = None,
    watcher: TuneWatcher | None = None,
    executor: Executor | None = None,
) -> TuneSuite:
    """Find the best settings of a loader, and confirm them against the ones it has.

    Args:
        target: a training script's path; or text, ``file.py:name`` or ``package.module:name``; or
            a loader, a dataset, or a function that returns one or ``(loader, step)``.
        step: one training step, ``step(batch)``, or its name beside a target given as text.
        budget: seconds that all runs together may take. A look, a short search and two
            confirmations are made in any case.
        argv: arguments of a script.
        loader: the training loader's number, where it is not found by its optimizer steps.
        max_workers, max_ram, max_shm: what may be used, in workers and bytes; by default what the
            machine can give now.
        tolerance: rates that differ by less than this share are the same.
        step_ms: simulate a step of so many milliseconds where there is none.
        device: where batches of a target without a step are copied to.
        seed: seeds random, NumPy and torch before a factory is called; a script is left alone.
        timeout: seconds without a batch after which a run is given up.
        allow: what may be tried though it changes what is trained: "in_order" (of batches),
            "batch_size".
        fresh: search again though an earlier tune of the same target is known.
        save: called with the suite after every run.
        watcher: told of everything as it happens.
        executor: runs the children.

    Returns:
        The suite, with its findings and the recommendation.

    Raises:
        UsageError: an option that cannot be meant.
        TargetError: the target cannot be used.
        NothingMeasured, MeasuringTimeout: the target as it is could not be measured.
        Interrupted: Ctrl-C; ``error.suite`` holds what was measured.
    """
    if os.environ.get(CHILD_MARK):
        raise UsageError(
            "feedrate.tune was called again by the target that it measures; put the call under "
            "if __name__ == '__main__':"
        )
    what = asked(target, step, argv)
    return tune_asked(
        what,
        budget=budget,
        loader=loader,
        max_workers=max_workers,
        max_ram=max_ram,
        max_shm=max_shm,
        tolerance=tolerance,
        step_ms=step_ms,
        device=device,
        seed=None if what.script is not None else seed,
        timeout=timeout,
        allow=allow,
        fresh=fresh,
        save=save,
        watcher=watcher,
        executor=executor,
    )


def tune_asked(
    what: Asked,
    *,
    budget: float,
    loader: int | None,
    max_workers: int | None,
    max_ram: int | None,
    max_shm: int | None,
    tolerance: float,
    step_ms: float | None,
    device: str,
    seed: int | None,
    timeout: float,
    allow: Sequence[str] = (),
    fresh: bool,
    keep_profile: bool = True,
    save: Callable[[Suite], None] | None = None,
    watcher: TuneWatcher | None = None,
    executor: Executor | None = None,
) -> TuneSuite:
    """Tune what `asked` has read, as `tune` does.

    ``keep_profile`` is whether a later tune may start from this one, and this one from an earlier.
    """
    procedure = Procedure(
        epochs=1,
        repeats=ROUNDS,
        step_seconds=None if step_ms is None else step_ms / 1000,
        device=device,
        timeout_seconds=timeout,
        tolerance=tolerance,
        budget_seconds=budget,
        allow=_allowed(allow),
    )
    bounds.check(procedure, seed)
    bounds.check_seconds("budget", budget)
    bounds.check_least(1, max_workers=max_workers, max_ram=max_ram, max_shm=max_shm)
    bounds.check_least(0, loader=loader)
    metadata = gather(
        target=what.shown,
        argv=tuple(sys.argv[1:]),
        seed=seed,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    key = None
    if keep_profile and not what.is_object:
        options = (loader, max_workers, max_ram, max_shm, tolerance, step_ms, device)
        key = _key(what, metadata, options)
    forks = ForkServer(child_environment())
    tuner = Tuner(
        Suite(metadata=metadata, procedure=procedure, kind="tune"),
        executor=executor or SubprocessExecutor(forks=forks),
        spec=child_spec(what, step_seconds=procedure.step_seconds, device=device, seed=seed),
        limits=lambda: allowed(budget, max_workers=max_workers, max_ram=max_ram, max_shm=max_shm),
        loader=loader,
        earlier=load_profile(key) if key is not None and not fresh else None,
        save=save or (lambda _: None),
        watcher=watcher or TuneWatcher(),
    )
    with contextlib.closing(forks):
        _with_answer(tuner)
    if key is not None and read(tuner.suite).levels:
        save_profile(key, tuner.suite)
    return as_tune_suite(tuner.suite)


def answered(suite: Suite) -> Suite:
    """Return the suite of a tune with its findings and recommendation computed anew."""
    return msgspec.structs.replace(suite, findings=judge(suite), recommendation=recommend(suite))


def as_tune_suite(suite: Suite) -> TuneSuite:
    """Return the same suite as one that can show and save itself."""
    return TuneSuite(**{name: getattr(suite, name) for name in suite.__struct_fields__})


def _with_answer(tuner: Tuner) -> None:
    """Tune, then add the answer and save; errors carry what was measured until then."""
    try:
        tuner.tune()
    except (FeedrateError, KeyboardInterrupt) as caught:
        error = caught if isinstance(caught, FeedrateError) else Interrupted("interrupted")
        tuner.suite = answered(tuner.suite)
        error.suite = tuner.suite
        if any(benchmark.runs for benchmark in tuner.suite.benchmarks):
            tuner.save()
        raise error from caught.__cause__
    tuner.suite = answered(tuner.suite)
    tuner.save()


def _key(what: Asked, metadata: Metadata, options: Sequence[object]) -> str:
    """Return the profile's name: host, target with its content, arguments, versions, options."""
    return profile_key(
        {
            "host": platform.node(),
            "machine": [metadata.cpu, metadata.usable_cpus, metadata.ram_bytes],
            "ranks": metadata.local_ranks,
            "folder": str(Path.cwd()),
            "target": what.shown,
            "step": what.handover.step,
            "content": content_hash(what.file) if what.file is not None else None,
            "versions": [metadata.feedrate_version, metadata.python_version, _torch_version()],
            "options": list(options),
        }
    )


def _torch_version() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _allowed(names: Sequence[str]) -> tuple[Allowed, ...]:
    names = (names,) if isinstance(names, str) else names
    for name in names:
        if name not in ALLOWED:
            raise UsageError(f"allow takes {' or '.join(ALLOWED)}, and not {name!r}")
    return cast(tuple[Allowed, ...], tuple(names))
