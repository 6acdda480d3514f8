"""The second pass: a child for each process that grows, in which that one is looked into."""

from __future__ import annotations

import msgspec

from feedrate.analysis.growing import is_native
from feedrate.analysis.phases import epoch_items
from feedrate.analysis.suspects import suspects
from feedrate.measure import wire
from feedrate.measure.causes.inspection import Caused, Causes, Inspection
from feedrate.measure.executor import Executor, OnMessage
from feedrate.memory_records import SOME_ITEMS, MemoryWatch

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
    memray: bool = False,
) -> tuple[MemoryWatch, bool]:
    """Return the watch with what was found of the processes that grow, if anything was.

    And whether the user ended it before all was found.

    Args:
        watch: the first pass.
        spec: what its child was told; the session is another one now.
        loader: the number of the loader that was watched.
        executor: runs the children.
        timeout: seconds without any batch after which one is taken to hang.
        on_message: told of their messages.
        memray: a process whose growth no Python object explains is looked into once more, with
            memray.
    """
    passes = _Passes(spec, executor, timeout, on_message)
    asked = spec.session
    told: list[Inspection] = []
    for suspect in suspects(watch):
        session = Causes(
            seconds=SECONDS,
            process=suspect.process,
            loader=loader,
            expected=suspect.expected,
            max_batches=asked.max_batches if isinstance(asked, wire.Leaks) else None,
        )
        found = _by_epoch(watch, passes.run(session))
        if memray and found is not None and is_native(found.growth) and not passes.is_ended:
            asked_c = msgspec.structs.replace(session, memray=True)
            native = _by_epoch(watch, passes.run(asked_c))
            found = found if native is None else _with_native(found, native)
        told += [found] if found is not None else []
        if passes.is_ended:
            break
    if not told:
        return watch, passes.is_ended
    explained = msgspec.structs.replace(
        watch,
        causes=tuple(each.growth for each in told if each.growth.grown > 0),
        objects=tuple(cause for each in told for cause in each.objects),
    )
    return explained, passes.is_ended


class _Passes:
    """Runs the children, one after another, until the user ends one."""

    def __init__(
        self, spec: wire.ChildSpec, executor: Executor, timeout: float, on_message: OnMessage
    ) -> None:
        self.is_ended = False
        self._spec = spec
        self._executor = executor
        self._timeout = timeout
        self._on_message = on_message

    def run(self, session: Causes) -> Inspection | None:
        """Return what a child tells, ``None`` where it tells nothing."""
        told: list[Inspection] = []

        def hear(message: wire.Message) -> None:
            if isinstance(message, Caused):
                told.append(message.inspection)
            self._on_message(message)

        outcome = self._executor.execute(
            msgspec.structs.replace(self._spec, session=session),
            timeout=self._timeout,
            on_message=hear,
        )
        self.is_ended = outcome.error is not None and outcome.error.kind == "interrupted"
        return told[-1] if told else None


def _by_epoch(watch: MemoryWatch, found: Inspection | None) -> Inspection | None:
    """Return what was found, for each epoch as the first pass saw them.

    The second may end before an epoch does, or count one that is left early for a whole. Where no
    epoch came to its end it is for `SOME_ITEMS` of them.
    """
    if found is None or not found.epoch_items:
        return found
    each_epoch = epoch_items(watch) or SOME_ITEMS
    if found.process != "main":
        each_epoch /= max(1, watch.num_workers)
    factor = each_epoch / found.epoch_items
    objects = tuple(
        msgspec.structs.replace(
            each, count=each.count * factor, bytes_per_epoch=each.bytes_per_epoch * factor
        )
        for each in found.objects
    )
    return msgspec.structs.replace(found, objects=objects, epoch_items=each_epoch)


def _with_native(found: Inspection, native: Inspection) -> Inspection:
    """Return what was found with what C code keeps before all else."""
    if not native.objects:
        return found
    first = native.objects[0]
    growth = msgspec.structs.replace(
        found.growth, file=first.file, line=first.line, type_name="", count=0, holder=""
    )
    return msgspec.structs.replace(found, growth=growth, objects=native.objects + found.objects)
