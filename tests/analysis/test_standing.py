"""Memory that is taken at once: what is told of it, and what is not worth a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from watch_builder import GIB, MIB, make_watch

from builders import make_facts
from feedrate.analysis.standing import STANDING, standing
from feedrate.memory_records import BatchCarried, IndexList, MemoryRoom, MemoryWatch
from feedrate.records import Finding, LoaderFacts, Run


def found(watch: MemoryWatch, facts: LoaderFacts | None = None) -> dict[str, Finding]:
    run = Run(position=0, repeat=0, epochs=(), memory=(), facts=facts or make_facts(2))
    return {each.code: each for each in standing(run, watch)}


def carrying(**fields: Any) -> MemoryWatch:
    values = {
        "view_bytes": MIB,
        "storage_bytes": 24 * MIB,
        "at_once": 1,
        "storages": 16,
        "batches": 16,
    } | fields
    return msgspec.structs.replace(make_watch(epochs=2), carried=BatchCarried(**values))


def test_views_that_take_a_storage_along_with_each_batch_are_told_with_both_sizes() -> None:
    finding = found(carrying())["memory.view_ships_storage"]
    assert "show 1.00 MiB and carry storages of 24.0 MiB" in finding.title
    assert "24.0×" in finding.title
    assert "Each batch" in finding.title
    figures = {each.name: each.value for each in finding.evidence}
    assert figures["bytes of the views in a batch"] == MIB
    assert figures["bytes of the storages that travel with them"] == 24 * MIB
    assert "clone()" in finding.remedy
    assert finding.code in STANDING


def test_views_of_one_storage_in_each_worker_are_told_as_a_copy_per_worker() -> None:
    finding = found(carrying(storages=2))["memory.view_ships_storage"]
    assert "Each worker puts one into shared memory: 48.0 MiB of 2 workers" in finding.title


@pytest.mark.parametrize(
    "fields",
    [
        {"storages": 1},  # the dataset was put into shared memory before: nothing more travels
        {"storages": 2, "at_once": 2},  # so were its images and its labels
        {"storage_bytes": 3 * MIB},
        {"view_bytes": 100, "storage_bytes": 64 * 1024},
    ],
)
def test_views_that_cost_nothing_or_little_are_no_finding(fields: dict[str, Any]) -> None:
    assert found(carrying(**fields)) == {}


def test_a_long_list_of_indices_is_told_with_its_bytes() -> None:
    made = IndexList(count=6_000_000, list_bytes=228 * MIB)
    finding = found(msgspec.structs.replace(make_watch(epochs=2), indices=made))
    title = finding["memory.sampler_list"].title
    assert "6,000,000 indices" in title
    assert "228 MiB" in title


def test_a_short_list_of_indices_is_no_finding() -> None:
    made = IndexList(count=1_000_000, list_bytes=38 * MIB)
    assert found(msgspec.structs.replace(make_watch(epochs=2), indices=made)) == {}


def test_a_queue_larger_than_what_there_is_names_what_is_too_small() -> None:
    room = MemoryRoom(memory=8 * GIB, memory_source="cgroup limit", shm=100 * MIB)
    facts = make_facts(2, prefetch_factor=2, batch_bytes=100 * MIB)
    finding = found(make_watch(epochs=2, room=room), facts)["memory.prefetch_queue"]
    assert "400 MiB" in finding.title
    assert "80 % of the 500 MiB of /dev/shm" in finding.title
    figures = {each.name: each.value for each in finding.evidence}
    assert figures["/dev/shm without them"] == 500 * MIB
    assert "cgroup limit without them" not in figures


def queued(most: float) -> Callable[[float], float]:
    """What lies in /dev/shm: the queue fills as an epoch begins, and is emptied at its end."""

    def taken(time: float) -> float:
        phase = time % 1
        return 5 * MIB + most * min(1.0, 8 * phase, 4 * (1 - phase))

    return taken


def test_a_queue_that_is_full_in_the_midst_of_epochs_is_longer_than_it_need_be() -> None:
    """Though the loop waits: its workers start anew with each epoch."""
    facts = make_facts(2, prefetch_factor=8, batch_bytes=12 * MIB)
    finding = found(make_watch(epochs=4, shm=queued(180 * MIB)), facts)["memory.prefetch_queue"]
    assert "192 MiB" in finding.title
    assert "94 % of it is taken" in finding.title
    assert found(make_watch(epochs=4, shm=queued(90 * MIB)), facts) == {}


def test_a_queue_that_fits_is_no_finding() -> None:
    room = MemoryRoom(memory=8 * GIB, shm=4 * GIB)
    facts = make_facts(2, prefetch_factor=2, batch_bytes=100 * MIB)
    assert found(make_watch(epochs=2, room=room), facts) == {}
