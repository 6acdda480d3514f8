"""Gathering the facts of a target: one child, which ends within the budget."""

from __future__ import annotations

import time
from collections.abc import Callable

from feedrate.doctor.machine_facts import MachineFacts
from feedrate.doctor.target_facts import TargetFacts, collect
from feedrate.measure import wire
from feedrate.measure.asked import Asked
from feedrate.measure.examined import Part
from feedrate.measure.executor import Executor, SubprocessExecutor

BUDGET_SECONDS = 30.0
_SILENCE = 0.9
"""The share of the budget for which a child may say nothing. It watches its time itself; but not
while native code holds it."""

OnPart = Callable[[Part], None]


def gather(
    asked: Asked,
    *,
    machine: MachineFacts,
    budget: float = BUDGET_SECONDS,
    loader: int | None = None,
    step_seconds: float | None = None,
    device: str = "auto",
    seed: int | None = 0,
    executor: Executor | None = None,
    on_part: OnPart = lambda _: None,
) -> TargetFacts:
    """Return what examining a target finds out.

    Args:
        asked: the target.
        machine: the machine's facts: how many ranks share it.
        budget: the seconds that all of it may take, the start of the child included.
        loader: the number of a script's loader, where it is not found by its optimizer steps.
        step_seconds: simulates a step where there is none.
        device: where batches of a target without a step are copied to.
        seed: seeds random, NumPy and torch before a factory is called.
        executor: runs the child.
        on_part: called with each part as it is known.

    A failure of the target is among the facts, as ``broken`` or ``error``; nothing is raised.
    """
    parts: list[Part] = []

    def on_message(message: wire.Message) -> None:
        if isinstance(message, wire.Examined):
            parts.append(message.part)
            on_part(message.part)

    spec = wire.ChildSpec(
        target=asked.handover.target,
        pickled=asked.handover.pickled,
        step=asked.handover.step,
        search_path=asked.handover.search_path,
        settings=None,
        epochs=1,
        step_seconds=step_seconds,
        device=device,
        seed=seed,
        script=asked.script,
        session=wire.Examine(until=time.time() + budget, seconds=budget, loader=loader),
    )
    outcome = (executor or SubprocessExecutor()).execute(
        spec, timeout=max(5.0, _SILENCE * budget), on_message=on_message
    )
    taken = outcome.other_cpu_seconds
    share = None if taken is None else taken / max(outcome.seconds * machine.cpus.usable, 1e-9)
    return collect(asked.shown, parts, outcome.error, ranks=machine.cpus.ranks, others=share)
