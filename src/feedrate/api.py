"""The library's way in: what the command does, from Python.

suite = feedrate.bench(make_loader, workers=[0, 2, 4])
print(suite.table())
suite.save("sweep.json")
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec

from feedrate import store
from feedrate.analysis.verdicts import best, judge
from feedrate.errors import FeedrateError, Interrupted, UsageError
from feedrate.host.files import SystemReader
from feedrate.host.limits import affinity, budget, memory_limits, shm_space, usable_cpus
from feedrate.host.metadata import gather
from feedrate.measure.child_process import CHILD_MARK
from feedrate.measure.executor import Executor, SubprocessExecutor
from feedrate.measure.handover import Handover, hand_over
from feedrate.measure.manager import Manager, Watcher
from feedrate.measure.named import foresee
from feedrate.measure.wire import ChildSpec
from feedrate.plan import bounds
from feedrate.plan.sweep import Axes, default_workers, grid
from feedrate.records import Benchmark, Procedure, Suite
from feedrate.settings import Budget, StartMethod
from feedrate.shown_suite import ShownSuite


class BenchSuite(ShownSuite, frozen=True, kw_only=True):
    """A measured suite that can show and save itself."""

    @property
    def best(self) -> Benchmark | None:
        """The fastest settings; of several that are as fast, the one that costs least."""
        return best(self)

    def __repr__(self) -> str:
        """Return one line; `table` shows the whole."""
        runs = sum(len(benchmark.runs) for benchmark in self.benchmarks)
        best = self.best
        found = f", best with {best.label}" if best is not None else ""
        return f"<BenchSuite of {self.metadata.target}: {runs} runs{found}; .table() shows it>"


def bench(
    target: Any,
    *,
    workers: Sequence[int] | None = None,
    epochs: int = 2,
    repeats: int = 1,
    max_batches: int | None = None,
    prefetch_factor: Sequence[int] = (),
    pin_memory: Sequence[bool] = (),
    persistent_workers: Sequence[bool] = (),
    start_method: Sequence[StartMethod] = (),
    batch_size: Sequence[int] = (),
    step: Any = None,
    step_ms: float | None = None,
    device: str = "auto",
    seed: int | None = 0,
    timeout: float = 300.0,
    tolerance: float = 0.03,
    plan_epochs: int = 10,
    arguments: dict[str, Any] | None = None,
    shown_target: str | None = None,
    save: Callable[[Suite], None] | None = None,
    watcher: Watcher | None = None,
    executor: Executor | None = None,
) -> BenchSuite:
    """Measure a loader under every combination of the given settings, each in a fresh process.

    Args:
        target: a function that returns a DataLoader, a Dataset or ``(loader, step)``; or one of
            these; or text, ``file.py:name`` or ``package.module:name``.
        workers: the values of ``num_workers``; by default 0 up to twice the usable CPUs.
        epochs: passes over the loader in each run; the first is cold.
        repeats: runs of each combination, in rotated order.
        max_batches: end each epoch after so many batches.
        prefetch_factor, pin_memory, persistent_workers, start_method, batch_size: values to
            combine; empty leaves the loader's own.
        step: one training step, ``step(batch)``, or its name beside a target given as text.
        step_ms: simulate a step of so many milliseconds where there is none.
        device: where batches of a target without a step are copied to.
        seed: seeds random, NumPy and torch in each child before the target is made; ``None``
            leaves them alone.
        timeout: seconds without a batch after which a run is given up.
        tolerance: rates that differ by less than this share are the same.
        plan_epochs: the length of the job that start-up costs are held against.
        arguments: passed to the function by keyword.
        shown_target: the target's name in the file, where it is not its own.
        save: called with the suite after every run.
        watcher: told of everything as it happens.
        executor: runs the children.

    Returns:
        The suite, with its findings.

    Raises:
        UsageError: a setting or option that cannot be.
        TargetError: the target cannot be used.
        NothingMeasured, MeasuringTimeout: no setting could be measured.
        Interrupted: Ctrl-C; ``error.suite`` holds what was measured.
    """
    if os.environ.get(CHILD_MARK):
        raise UsageError(
            "feedrate.bench was called again by the target that it measures; put the call under "
            "if __name__ == '__main__':"
        )
    if step is not None and step_ms is not None:
        raise UsageError("step and step_ms are both given: step_ms is for targets without a step")
    handover = hand_over(target, step)
    if isinstance(target, str):
        foresee(target, handover.step)
    cpus = usable_cpus(SystemReader(), affinity())
    try:
        benchmarks = grid(
            Axes(
                workers=_listed(
                    "workers", default_workers(cpus.cpus) if workers is None else workers
                ),
                prefetch_factor=_listed("prefetch_factor", prefetch_factor),
                pin_memory=_listed("pin_memory", pin_memory),
                persistent_workers=_listed("persistent_workers", persistent_workers),
                start_method=_listed("start_method", start_method),
                batch_size=_listed("batch_size", batch_size),
            )
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    procedure = Procedure(
        epochs=epochs,
        repeats=repeats,
        max_batches=max_batches,
        step_seconds=bounds.step_seconds(step_ms),
        device=device,
        timeout_seconds=timeout,
        tolerance=tolerance,
        plan_epochs=plan_epochs,
    )
    manager = open_manager(
        procedure,
        handover,
        seed=seed,
        arguments=lambda _: arguments or {},
        save=save,
        watcher=watcher,
        executor=executor,
        shown_target=shown_target,
    )
    with_result(manager, lambda: manager.measure(benchmarks, repeats))
    return as_bench_suite(manager.suite)


_KINDS = {"pin_memory": bool, "persistent_workers": bool, "start_method": str}


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of a setting to combine; one value alone will do.

    Raises:
        UsageError: one of them is of the wrong kind.
    """
    kind = _KINDS.get(name, int)
    listed = (values,) if isinstance(values, int | str) else tuple(values)
    for value in listed:
        if type(value) is not kind:
            raise UsageError(f"{name} takes values of type {kind.__name__}, and not {value!r}")
    return listed


def load(path: str | os.PathLike[str]) -> BenchSuite:
    """Read a saved suite.

    Raises:
        FormatError: the file is missing, truncated, newer, or not one of feedrate's.
    """
    return as_bench_suite(store.load(path))


def open_manager(
    procedure: Procedure,
    handover: Handover,
    *,
    seed: int | None,
    arguments: Callable[[Benchmark], dict[str, Any]],
    save: Callable[[Suite], None] | None = None,
    watcher: Watcher | None = None,
    executor: Executor | None = None,
    shown_target: str | None = None,
) -> Manager:
    """Return a manager with an empty suite for a target.

    ``shown_target`` is the target's name in the file, where it is not the handover's own.

    Raises:
        UsageError: the procedure or the seed cannot be meant.
    """
    bounds.check(procedure, seed)
    metadata = gather(
        target=shown_target or handover.target,
        argv=tuple(sys.argv[1:]),
        seed=seed,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )

    def spec_for(benchmark: Benchmark) -> ChildSpec:
        return ChildSpec(
            target=handover.target,
            pickled=handover.pickled,
            step=handover.step,
            search_path=handover.search_path,
            arguments=arguments(benchmark),
            settings=benchmark.settings,
            epochs=procedure.epochs,
            max_batches=procedure.max_batches,
            step_seconds=procedure.step_seconds,
            device=procedure.device,
            seed=seed,
        )

    return Manager(
        Suite(metadata=metadata, procedure=procedure),
        executor=executor or SubprocessExecutor(),
        spec_for=spec_for,
        free=free_now,
        save=save or (lambda _: None),
        watcher=watcher or Watcher(),
    )


def with_result(manager: Manager, measure: Callable[[], object]) -> None:
    """Measure, then add the findings and save; errors carry what was measured until then."""
    try:
        measure()
        manager.require_a_result()
    except (FeedrateError, KeyboardInterrupt) as caught:
        error = caught if isinstance(caught, FeedrateError) else Interrupted("interrupted")
        manager.suite = judged(manager.suite)
        error.suite = manager.suite
        if any(benchmark.runs or benchmark.skipped for benchmark in manager.suite.benchmarks):
            manager.save()
        raise error from caught.__cause__
    manager.suite = judged(manager.suite)
    manager.save()


def judged(suite: Suite) -> Suite:
    """Return the suite with its findings computed anew, and of a tune the recommendation."""
    if suite.kind == "tune":
        from feedrate.tune_api import answered

        return answered(suite)
    if suite.kind == "leaks":
        from feedrate import leak_api

        return leak_api.answered(suite)
    if suite.kind in ("explain", "doctor"):
        return suite  # of a log, or of a machine and a target, which are not kept
    return msgspec.structs.replace(suite, findings=judge(suite))


def as_bench_suite(suite: Suite) -> BenchSuite:
    """Return the same suite as one that can show and save itself."""
    return BenchSuite(**{name: getattr(suite, name) for name in suite.__struct_fields__})


def free_now() -> Budget:
    """Return what this machine can give at this moment."""
    reader = SystemReader()
    return budget(usable_cpus(reader, affinity()), memory_limits(reader), shm_space())
