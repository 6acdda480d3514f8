"""The second pass: a child for each process that grows, in which that one is looked into."""

from __future__ import annotations

import msgspec

from feedrate.analysis.suspects import suspects
from feedrate.measure import wire
from feedrate.measure.causes.inspection import Caused, Causes, Inspection
from feedrate.measure.executor import Executor, OnMessage
from feedrate.memory_records import MemoryWatch

SECONDS = 10.0
"""How long each pass takes about."""


def with_causes(
    watch: MemoryWatch,
    spec: wire.ChildSpec,
    *,
    loader: int | None,
    executor: Executor,
    timeout: float,
    on_message: OnMessage,
) -> MemoryWatch:
    """Return the watch with what was found of the processes that grow, if anything was.

    Args:
        watch: the first pass.
        spec: what its child was told; the session is another one now.
        loader: the number of the loader that was watched.
        executor: runs the children.
        timeout: seconds without any batch after which one is taken to hang.
        on_message: told of their messages.
    """
    asked = spec.session
    told: list[Inspection] = []

    def hear(message: wire.Message) -> None:
        if isinstance(message, Caused):
            told.append(message.inspection)
        on_message(message)

    for suspect in suspects(watch):
        session = Causes(
            seconds=SECONDS,
            process=suspect.process,
            loader=loader,
            expected=suspect.expected,
            max_batches=asked.max_batches if isinstance(asked, wire.Leaks) else None,
        )
        outcome = executor.execute(
            msgspec.structs.replace(spec, session=session), timeout=timeout, on_message=hear
        )
        if outcome.error is not None and outcome.error.kind == "interrupted":
            break  # what the first pass saw is worth more than an error
    if not told:
        return watch
    return msgspec.structs.replace(
        watch,
        causes=tuple(each.growth for each in told if each.growth.grown > 0),
        objects=tuple(cause for each in told for cause in each.objects),
    )
