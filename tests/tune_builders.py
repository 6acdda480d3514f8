"""A made-up training loop that answers what a tune asks of its children, without processes.

`Loop` has a fetch time, CPU seconds, a step and usable CPUs, and delivers what the feeding roofline
says, times a small disturbance that goes round. A test changes one thing and looks at the course.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import msgspec

from builders import make_facts, make_metadata, make_peaks, make_procedure
from feedrate.measure import wire
from feedrate.measure.executor import Outcome
from feedrate.measure.tuner import Tuner
from feedrate.plan.tuning import Limits
from feedrate.records import Choice, LoaderFacts, LoaderUse, RunError, Suite, Window
from feedrate.settings import Budget, LoaderSettings

ITEMS = 32
PLENTY = Budget(cpus=4, ram_bytes=2**40, shm_bytes=2**40)
NOISE = (1.0, 1.004, 0.996, 1.002, 0.998)


def limits(seconds: float = 60.0, most_workers: int = 32, free: Budget = PLENTY) -> Limits:
    return Limits(seconds=seconds, most_workers=most_workers, free=free)


def window(
    level: int,
    rate: float,
    phase: str = "static",
    *,
    batches: int = 40,
    step: float = 0.001,
    **changes: Any,
) -> Window:
    """Return a window of so many batches/s that waits whenever it does not step."""
    seconds = batches / rate
    stepped = min(step * batches, seconds)
    fields: dict[str, Any] = {
        "level": level,
        "batches": batches,
        "items": batches * ITEMS,
        "seconds": seconds,
        "phase": phase,
        "wait_seconds": seconds - stepped,
        "step_seconds": stepped,
    }
    return Window(**(fields | changes))


def use(facts: LoaderFacts | None = None, **changes: Any) -> LoaderUse:
    fields: dict[str, Any] = {
        "number": 0,
        "file": "train.py",
        "line": 42,
        "facts": facts or make_facts(0),
        "epochs": 1,
        "complete_epochs": 0,
        "batches": 100,
        "optimizer_steps": 100,
    }
    return LoaderUse(**(fields | changes))


@dataclass
class Loop:
    """Times are seconds a batch. ``own`` is what the script sets, ``breaks_at`` where workers die.

    ``ramp_rates`` are batches/s that the ramp alone sees, as of a disturbed window.

    ``zero_costs`` is what a batch takes in the main process, by default as long as in a worker;
    ``transport`` what taking a batch from a worker costs the loop. On feedrate's loader the rate is
    ``feedrate_gain`` times as high, and ``order_gain`` times where batches may pass each other,
    ``depth_gain`` times where a prefetch_factor is set. ``variation`` is that of the fetch times.
    ``step_threads`` compute the step, each worker more makes a batch dearer by the share
    ``cpu_grows``, and with fewer threads in the main process the rate is ``thread_gain`` times as
    high; items/s are ``batch_gain`` times as many in batches of another size.
    """

    fetch: float = 0.020
    cpu: float = 0.010
    step: float = 0.004
    cpus: float = 4.0
    transport: float = 0.0
    own: LoaderFacts = field(default_factory=lambda: make_facts(0))
    ramp_to: tuple[int, ...] = (1, 5, 6, 4)
    chosen: int = 5
    ramp_rates: dict[int, float] = field(default_factory=dict)
    breaks_at: int | None = None
    rampable: bool = True
    startup: float = 0.05
    accelerator: str | None = None
    child_seconds: float = 2.0
    epochs: int = 1
    feedrate_gain: float = 1.0
    variation: float = 0.1
    order_gain: float = 1.0
    depth_gain: float = 1.0
    step_threads: float = 1.0
    cpu_grows: float = 0.0
    thread_gain: float = 1.0
    batch_gain: float = 1.0
    seen: list[wire.ChildSpec] = field(default_factory=list)
    fail_look: RunError | None = None
    interrupt_at: int | None = None
    _noise: Any = field(default_factory=lambda: cycle(NOISE))

    def rate(self, level: int) -> float:
        """Return the batches/s at a level."""
        loop = self.step + (self.transport if level else 0.0)
        if level == 0:
            return 1 / (self.fetch + self.step)
        return min(level / self.fetch, self.cpus / self.cpu, 1 / loop)

    def __call__(self, spec: wire.ChildSpec) -> Outcome:
        self.seen.append(spec)
        if self.interrupt_at == len(self.seen):
            error = RunError(kind="interrupted", sentence="interrupted by Ctrl-C")
            return Outcome(seconds=1.0, error=error)
        session = spec.session
        if isinstance(session, wire.Look):
            return self._look()
        if isinstance(session, wire.Ramp):
            return self._ramp(session)
        assert isinstance(session, wire.Static)
        return self._static(spec, session)

    def _look(self) -> Outcome:
        if self.fail_look is not None:
            return Outcome(seconds=1.0, error=self.fail_look)
        level = self.own.num_workers
        windows = (
            self._window(level, self.rate(level), "own", batches=max(4, int(2 * self.rate(level)))),
            self._window(
                level,
                1 / self.step,
                "cached",
                batches=max(4, int(1 / self.step)),
                main_cpu_seconds=self.step * self.step_threads,
            ),
        )
        return self._outcome(windows, seconds=self.child_seconds + 3, facts=self.own)

    def _ramp(self, session: wire.Ramp) -> Outcome:
        if not self.rampable:
            error = RunError(kind="fixed_workers", sentence="its workers cannot come and go")
            return Outcome(seconds=self.child_seconds, error=error)
        windows: list[Window] = []
        choices: list[Choice] = []
        for level in self.ramp_to:
            if level > session.most_workers:
                break
            choices.append(Choice(level=level, prefetch=2, reason="the loop still waits"))
            if level == self.breaks_at:
                error = RunError(kind="worker_died", sentence="A worker was killed.")
                return self._outcome(windows, seconds=5.0, choices=choices, error=error)
            windows.append(
                self._window(
                    level,
                    self.ramp_rates.get(level, self.rate(level)),
                    "ramp",
                    fetch_seconds=self.fetch,
                    worker_cpu_seconds=self.cpu * (1 + self.cpu_grows * (level - 1)),
                    main_cpu_seconds=0.0,
                    fetch_variation=self.variation,
                )
            )
        chosen = min(self.chosen, max((c.level for c in choices), default=1))
        choices.append(Choice(level=chosen, prefetch=2, reason="others differ little"))
        return self._outcome(windows, seconds=self.child_seconds + 8, choices=choices)

    def _static(self, spec: wire.ChildSpec, session: wire.Static) -> Outcome:
        level = self.own.num_workers if spec.settings is None else spec.settings.num_workers
        if self.breaks_at is not None and level >= self.breaks_at:
            error = RunError(kind="worker_died", sentence="A worker was killed.")
            return Outcome(seconds=3.0, error=error)
        rate = self.rate(level) * next(self._noise)
        facts = self.own
        if spec.settings is not None and spec.settings.loader == "feedrate":
            rate *= self.feedrate_gain
            facts = msgspec.structs.replace(facts, loader="feedrate")
        if spec.settings is not None and spec.settings.in_order is False:
            rate *= self.order_gain
        if spec.settings is not None and spec.settings.prefetch_factor is not None:
            rate *= self.depth_gain
        if spec.settings is not None and spec.settings.main_threads is not None:
            rate *= self.thread_gain
        if spec.settings is not None and spec.settings.batch_size is not None:
            rate *= self.batch_gain
        windows = (self._window(level, rate, "static", batches=max(4, int(rate))),)
        return self._outcome(windows, seconds=self.child_seconds + session.seconds, facts=facts)

    def _window(self, level: int, rate: float, phase: str, **changes: Any) -> Window:
        return window(level, rate, phase, step=self.step, **changes)

    def _outcome(
        self,
        windows: Sequence[Window],
        *,
        seconds: float,
        facts: LoaderFacts | None = None,
        choices: Sequence[Choice] = (),
        error: RunError | None = None,
    ) -> Outcome:
        facts = facts or self.own
        ready = wire.Ready(
            setup_seconds=0.5,
            facts=facts,
            versions={"torch": "2.6.0", "numpy": "2.0.0"},
            accelerator=self.accelerator,
            default_start_method="fork",
        )
        return Outcome(
            seconds=seconds,
            ready=ready,
            facts=facts,
            windows=tuple(windows),
            choices=tuple(choices),
            used=wire.Used(
                loaders=(use(facts, epochs=self.epochs),),
                training_loader=0,
                startup_seconds=self.startup,
            ),
            error=error,
            peaks=make_peaks(2),
        )


def small_gain(**changes: Any) -> Loop:
    """Return a loop that has 5 workers, and with 6 of them is a seventh faster."""
    own = make_facts(5, length=10**6, persistent_workers=True)
    return Loop(own=own, step=0.0035, ramp_to=(1, 5, 6), chosen=6, **changes)


class Executed:
    """An executor that asks a loop."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: Any) -> Outcome:
        outcome = self.loop(spec)
        if outcome.ready is not None:
            on_message(outcome.ready)
        return outcome


def make_tune(
    *, seconds: float = 60.0, cpus: float = 4.0, allow: Sequence[Any] = (), **changes: Any
) -> Suite:
    """Return a suite of a tune that has measured nothing yet."""
    return Suite(
        metadata=make_metadata(
            usable_cpus=cpus, target="train.py --epochs 3", torch_version=None, **changes
        ),
        procedure=make_procedure(epochs=1, budget_seconds=seconds, allow=tuple(allow)),
        kind="tune",
    )


def make_tuner(
    loop: Loop, *, seconds: float = 60.0, allow: Sequence[str] = (), **changes: Any
) -> Tuner:
    """Return a tuner of a loop, with its fakes."""
    fields: dict[str, Any] = {
        "executor": Executed(loop),
        "spec": wire.ChildSpec(target="train.py", settings=None, epochs=1),
        "limits": lambda: limits(seconds),
        "save": lambda suite: None,
    }
    suite = changes.pop("suite", None) or make_tune(seconds=seconds, cpus=loop.cpus, allow=allow)
    from feedrate.measure.tune_watcher import TuneWatcher

    return Tuner(suite, **({"watcher": TuneWatcher()} | fields | changes))


def tuned_suite(
    loop: Loop | None = None, *, seconds: float = 60.0, allow: Sequence[str] = ()
) -> Suite:
    """Return the suite of a whole tune of a loop."""
    tuner = make_tuner(loop or Loop(), seconds=seconds, allow=allow)
    tuner.tune()
    return tuner.suite


def raced(loop: Loop) -> list[LoaderSettings | None]:
    """Return the settings that were run one after another in the race."""
    return [spec.settings for spec in loop.seen if isinstance(spec.session, wire.Static)]
