"""Which children the second pass runs, and what becomes of what they tell; no process."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.leaks import judge
from feedrate.measure import wire
from feedrate.measure.causes.inspection import Caused, Causes, Inspection
from feedrate.measure.executor import Executor, OnMessage, Outcome
from feedrate.measure.second_pass import with_causes
from feedrate.memory_records import (
    SOME_ITEMS,
    Cause,
    GrowthCause,
    MemoryLook,
    MemoryReading,
    MemoryWatch,
    ProcessReading,
)
from feedrate.records import RunError

MIB = 2**20


def watch(growth: float, looks: int = 12) -> MemoryWatch:
    def look(epoch: int) -> MemoryLook:
        own = round(300 * MIB + growth * epoch)
        memory = MemoryReading(rss=own, anonymous=own)
        main = ProcessReading(pid=1, memory=memory)
        return MemoryLook(at=epoch, epoch=epoch, phase=1.0, items=1000 * (epoch + 1), main=main)

    seen = tuple(look(epoch) for epoch in range(looks))
    return MemoryWatch(looks=seen, complete_epochs=looks, num_workers=0)


CAUSE = Cause(
    process="main", file="train.py", line=9, type_name="Tensor", count=10.0, bytes_per_epoch=99.0
)
FOUND = Inspection(
    process="main",
    growth=GrowthCause(process="main", grown=20 * MIB, traced=19 * MIB, file="train.py", line=9),
    objects=(CAUSE,),
)


class Tells:
    """Answers each spec by what it is told to say."""

    def __init__(self, *messages: wire.Message, error: RunError | None = None) -> None:
        self.messages = messages
        self.error = error
        self.is_ended = error is not None and error.kind == "interrupted"
        self.specs: list[wire.ChildSpec] = []

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        del timeout
        self.specs.append(spec)
        for message in self.messages:
            on_message(message)
        return Outcome(seconds=1.0, facts=make_facts(0), error=self.error)


def explain(
    seen: MemoryWatch,
    executor: Executor,
    on_message: Callable[[wire.Message], None] = lambda _: None,
    *,
    memray: bool = False,
) -> MemoryWatch:
    asked = wire.Leaks(seconds=60.0, fewest=9, max_batches=7)
    spec = wire.ChildSpec(target="train.py:make", settings=None, epochs=1, session=asked)
    explained, is_ended = with_causes(
        seen,
        spec,
        loader=3,
        executor=executor,
        timeout=60.0,
        on_message=on_message,
        memray=memray,
    )
    assert is_ended is getattr(executor, "is_ended", False)
    return explained


def test_a_process_that_grows_is_looked_into_in_a_child_of_its_own() -> None:
    executor = Tells(Caused(inspection=FOUND))
    heard: list[wire.Message] = []
    explained = explain(watch(20 * MIB), executor, heard.append)
    (spec,) = executor.specs
    assert isinstance(spec.session, Causes)
    assert (spec.session.process, spec.session.loader, spec.session.max_batches) == ("main", 3, 7)
    assert spec.session.expected == pytest.approx(20 * MIB / 1000)
    assert explained.causes == (FOUND.growth,)
    assert explained.objects == (CAUSE,)
    assert len(heard) == 1


@pytest.mark.parametrize(("has_ended", "items"), [(True, 1000), (False, SOME_ITEMS)])
def test_what_is_found_is_told_for_an_epoch_as_the_first_pass_saw_it(
    has_ended: bool, items: int
) -> None:
    """The second one counted 50 items as an epoch."""
    short = msgspec.structs.replace(FOUND, epoch_items=50.0)
    seen = watch(20 * MIB, looks=30)
    if not has_ended:
        within = tuple(msgspec.structs.replace(each, epoch=0, phase=0.5) for each in seen.looks)
        seen = msgspec.structs.replace(seen, looks=within, complete_epochs=0)
    (cause,) = explain(seen, Tells(Caused(inspection=short))).objects
    assert cause.count == CAUSE.count * items / 50
    assert cause.bytes_per_epoch == CAUSE.bytes_per_epoch * items / 50


def test_where_nothing_grows_no_child_is_run() -> None:
    executor = Tells()
    seen = watch(0.0)
    assert explain(seen, executor) == seen
    assert executor.specs == []


def test_a_pass_that_finds_nothing_or_is_ended_leaves_the_watch_as_it_was() -> None:
    seen = watch(20 * MIB)
    ended = Tells(error=RunError(kind="interrupted", sentence="interrupted by Ctrl-C"))
    assert explain(seen, ended) == seen
    nothing = Inspection(process="main", growth=GrowthCause(process="main", grown=0))
    assert explain(seen, Tells(Caused(inspection=nothing))).causes == ()


IN_C = Inspection(process="main", growth=GrowthCause(process="main", grown=20 * MIB))
C_CAUSE = Cause(process="main", file="reader.py", line=4, type_name="C memory (open)", count=100.0)


class TellsInTurn(Tells):
    """Says one message to each spec."""

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        self.specs.append(spec)
        on_message(self.messages[len(self.specs) - 1])
        return Outcome(seconds=1.0, facts=make_facts(0))


def sessions(executor: Tells) -> list[tuple[str, bool]]:
    found = [spec.session for spec in executor.specs]
    assert all(isinstance(each, Causes) for each in found)
    return [(each.process, each.memray) for each in found if isinstance(each, Causes)]


def test_with_memray_growth_in_c_is_looked_into_once_more_and_told_by_its_line() -> None:
    native = Inspection(process="main", growth=IN_C.growth, objects=(C_CAUSE,))
    executor = TellsInTurn(Caused(inspection=IN_C), Caused(inspection=native))
    explained = explain(watch(20 * MIB), executor, memray=True)
    assert sessions(executor) == [("main", False), ("main", True)]
    assert explained.objects == (C_CAUSE,)
    (growth,) = explained.causes
    assert (growth.file, growth.line, growth.grown) == ("reader.py", 4, 20 * MIB)
    (leak,) = [each for each in judge(explained) if each.code == "memory.native_growth"]
    assert "reader.py:4" in leak.title
    assert "--memray" not in leak.remedy


def test_memray_is_not_needed_where_python_objects_explain_the_growth() -> None:
    executor = TellsInTurn(Caused(inspection=FOUND))
    assert explain(watch(20 * MIB), executor, memray=True).objects == (CAUSE,)
    assert sessions(executor) == [("main", False)]


def test_where_memray_finds_nothing_the_growth_is_in_c_all_the_same() -> None:
    executor = TellsInTurn(Caused(inspection=IN_C), Caused(inspection=IN_C))
    explained = explain(watch(20 * MIB), executor, memray=True)
    assert explained.causes == (IN_C.growth,)
    (leak,) = [each for each in judge(explained) if each.code == "memory.native_growth"]
    assert "--memray" in leak.remedy
