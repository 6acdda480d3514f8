"""Stand-ins for the edges to the world: no process, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from builders import ITEMS, make_epoch, make_facts
from feedrate.measure import wire
from feedrate.measure.executor import OnMessage, Outcome
from feedrate.records import RunError

Script = Callable[[wire.ChildSpec], Outcome]


class FakeExecutor:
    """Answers each spec by a script, and keeps what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.specs: list[wire.ChildSpec] = []

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        self.specs.append(spec)
        outcome = self.script(spec)
        if outcome.ready is not None:
            on_message(outcome.ready)
        return outcome


def succeed(spec: wire.ChildSpec, *, seconds: float = 10.0, rate: float = 100.0) -> Outcome:
    """Return the outcome of a child that measured every epoch at one rate."""
    settings = spec.settings
    assert settings is not None
    facts = make_facts(settings.num_workers)
    ready = wire.Ready(
        setup_seconds=0.5,
        facts=facts,
        versions={"torch": "2.6.0", "numpy": "2.0.0"},
        default_start_method="fork",
    )
    epochs = tuple(make_epoch(seconds=ITEMS / rate) for _ in range(spec.epochs))
    return Outcome(seconds=seconds, ready=ready, facts=facts, epochs=epochs)


def fail(kind: str = "exception", sentence: str = "it broke", traceback: str = "") -> Outcome:
    """Return the outcome of a child that ended with an error."""
    error = RunError(kind=kind, sentence=sentence, traceback=traceback)  # type: ignore[arg-type]
    return Outcome(seconds=1.0, error=error)


def in_turn(*outcomes: Outcome | Script) -> Script:
    """Return a script that gives these one after another."""
    left: Iterator[Outcome | Script] = iter(outcomes)

    def script(spec: wire.ChildSpec) -> Outcome:
        answer = next(left)
        return answer if isinstance(answer, Outcome) else answer(spec)

    return script
