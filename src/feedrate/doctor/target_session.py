"""Gathering the facts of a target: one child, which ends within the budget."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from feedrate.doctor.machine_facts import MachineFacts
from feedrate.doctor.target_facts import TargetFacts, collect
from feedrate.measure import wire
from feedrate.measure.asked import Asked, child_spec
from feedrate.measure.examined import Part, Untried
from feedrate.measure.executor import Executor, SubprocessExecutor

BUDGET_SECONDS = 30.0
_END_SECONDS, _END_SHARE = 2.5, 0.2
"""What the end of a child may take: its workers are ended with it, and what it left is removed."""

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
        budget: the seconds that all of it may take, the child's start and end included. The child
            watches its time itself, and is ended where native code does not let it.
        loader: the number of a script's loader, where it is not found by its optimizer steps.
        step_seconds: simulates a step where there is none.
        device: where batches of a target without a step are copied to.
        seed: seeds random, NumPy and torch before a factory is called.
        executor: runs the child; by default in a process that is ended in time.
        on_part: called with each part as it is known.

    A failure of the target is among the facts, as ``broken`` or ``error``; nothing is raised.
    """
    parts: list[Part] = []

    def on_message(message: wire.Message) -> None:
        if isinstance(message, wire.Examined):
            parts.append(message.part)
            on_part(message.part)

    within = budget - min(_END_SECONDS, _END_SHARE * budget)
    spec = msgspec.structs.replace(
        child_spec(asked, step_seconds=step_seconds, device=device, seed=seed),
        session=wire.Examine(
            until=time.time() + within, seconds=budget, loader=loader, cpus=_cpus()
        ),
    )
    outcome = (executor or SubprocessExecutor(within=within)).execute(
        spec, timeout=within, on_message=on_message
    )
    if outcome.error is not None and outcome.error.kind == "timeout":
        parts.append(Untried(what="all that was to follow", why=outcome.error.sentence))
    taken = outcome.other_cpu_seconds
    share = None if taken is None else taken / max(outcome.seconds * machine.cpus.usable, 1e-9)
    return collect(asked.shown, parts, outcome.error, ranks=machine.cpus.ranks, others=share)


def _cpus() -> tuple[int, ...]:
    """Return the numbers of the CPUs that a child begins with, () where the platform has none."""
    get = getattr(os, "sched_getaffinity", None)
    return () if get is None else tuple(sorted(get(0)))
