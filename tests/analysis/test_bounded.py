"""Caches with a limit that is still far: what they will take, and what is no such thing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from watch_builder import GIB, MIB, make_watch, rising

from feedrate.analysis.leaks import is_leak, judge
from feedrate.memory_records import Cause, GrowthCause, MemoryRoom, MemoryWatch

ENTRY = Cause(
    process="worker 0", file="data.py", line=4, type_name="numpy.ndarray", count=100.0,
    bytes_per_epoch=MIB, held_by=("lru_cache of big()",), most=6000,
)  # fmt: skip
KEPT = msgspec.structs.replace(ENTRY, line=9, held_by=("data.SEEN", "list"), most=None)
CAUSE = GrowthCause(
    process="worker", grown=10 * MIB, traced=9 * MIB, file="data.py", line=4,
    type_name="numpy.ndarray", count=1000, holder="lru_cache of big()",
)  # fmt: skip


def watch(*objects: Cause, left: int = 8 * GIB, **fields: Any) -> MemoryWatch:
    options: dict[str, Any] = {"worker": rising(MIB, 100 * MIB), "causes": (CAUSE,)}
    return make_watch(**(options | fields), objects=objects, room=MemoryRoom(memory=left))


def codes(seen: MemoryWatch) -> set[str]:
    return {finding.code for finding in judge(seen)}


def test_a_cache_with_a_limit_is_no_leak_and_told_with_its_end() -> None:
    """6,000 entries of 10.5 KiB, and a ninth more that no object explains."""
    (finding,) = (each for each in judge(watch(ENTRY)) if each.code == "memory.bounded_cache")
    assert not is_leak(finding)
    assert finding.title == (
        "The memory of a worker grows by 1.00 MiB an epoch each (2.05 KiB an item) until it is "
        "full: about 66.7 MiB above the start each, 55.7 MiB from here. What holds it takes a "
        "number of entries, and then drops the oldest. It is allocated at data.py:4 (1,000 more "
        "objects of type numpy.ndarray), held by lru_cache of big()."
    )
    assert not any(map(is_leak, judge(watch(ENTRY))))


def test_in_the_main_process_too() -> None:
    entry = msgspec.structs.replace(ENTRY, process="main")
    cause = msgspec.structs.replace(CAUSE, process="main")
    seen = watch(entry, worker=100 * MIB, main=rising(MIB, 300 * MIB), causes=(cause,))
    assert codes(seen) >= {"memory.bounded_cache"}
    assert not any(map(is_leak, judge(seen)))


@pytest.mark.parametrize(
    "seen",
    [
        watch(ENTRY, KEPT),
        watch(KEPT),
        watch(ENTRY, left=150 * MIB),
        watch(ENTRY, causes=(msgspec.structs.replace(CAUSE, traced=MIB),)),
        watch(msgspec.structs.replace(ENTRY, process="main")),
    ],
    ids=["something else grows too", "no limit", "does not fit", "grows in C", "another process"],
)
def test_what_is_no_cache_with_an_end_that_fits_is_a_leak(seen: MemoryWatch) -> None:
    assert "memory.bounded_cache" not in codes(seen)
    assert any(map(is_leak, judge(seen)))
