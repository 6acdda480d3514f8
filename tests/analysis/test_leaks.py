"""What is said of a watch: the sentence, its severity, its remedy."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from test_growing import KINDS
from watch_builder import GIB, MIB, make_watch, rising

from feedrate.analysis.growing import everything
from feedrate.analysis.leaks import epochs_wanted, is_leak, judge
from feedrate.memory_records import GrowthCause, MemoryRoom, MemoryWatch
from feedrate.records import Finding

OPEN_OR_CALM = {"memory.undecided", "memory.no_growth", "memory.warm_up"}


def one(watch: MemoryWatch, code: str) -> Finding:
    (made,) = (finding for finding in judge(watch) if finding.code == code)
    return made


def test_nothing_grows() -> None:
    watch = make_watch(workers=0, inherited=0)
    (finding,) = judge(watch)
    assert finding.code == "memory.no_growth"
    assert finding.title == (
        "No growth: at most 9.14 KiB per epoch could hide below what 12 epochs can show."
    )
    assert not is_leak(finding)
    assert epochs_wanted(watch) is None


@pytest.mark.parametrize("code", KINDS)
def test_each_kind_has_its_sentence(code: str) -> None:
    finding = one(make_watch(**KINDS[code]), code)
    assert finding.title
    assert finding.remedy
    assert "{" not in finding.title
    assert finding.evidence[0].value > 0
    assert is_leak(finding) == (code != "memory.device_cache")


def test_a_leak_in_the_main_process() -> None:
    room = MemoryRoom(memory=300 * MIB)
    finding = one(make_watch(main=rising(3 * MIB), room=room), "memory.main_step_growth")
    assert finding.severity == "error"  # the limit is reached within a day
    assert finding.title == (
        "The memory of the main process grows by 3.00 MiB an epoch (3.07 KiB an item); the limit "
        "of memory (300 MiB left) is reached after about 100 more epochs (1 h 40 min at this "
        "pace). Each step keeps something; it is not the loader."
    )


def test_without_workers_the_loader_is_not_acquitted() -> None:
    finding = one(make_watch(workers=0, main=rising(3 * MIB)), "memory.main_step_growth")
    assert "not the loader" not in finding.title
    assert "There are no workers" in finding.title


def test_a_leak_whose_end_is_far_is_a_warning() -> None:
    room = MemoryRoom(memory=500 * GIB)
    finding = one(make_watch(worker=rising(MIB), room=room), "memory.worker_growth")
    assert finding.severity == "warning"
    assert finding.title.startswith(
        "Memory of 2 workers grows by 1.00 MiB an epoch each (2.05 KiB an item)"
    )


def test_a_limit_that_is_reached() -> None:
    watch = make_watch(main_descriptors=rising(100, 200))
    finding = one(watch, "memory.fd_growth_main")
    assert "the limit of descriptors is reached." in finding.title


def test_no_known_limit() -> None:
    finding = one(make_watch(worker=rising(MIB), room=MemoryRoom()), "memory.worker_growth")
    assert "with no end in sight" in finding.title


def test_files_that_pile_up_are_told_with_whose_they_may_be() -> None:
    finding = one(make_watch(shm=rising(20 * MIB)), "memory.shm_growth")
    assert finding.title.startswith(
        "Files in /dev/shm that no process of this run has mapped pile up by 20.0 MiB an epoch"
    )
    assert finding.title.endswith("what other programs of this user leave there counts too.")
    assert finding.severity == "warning"


def test_growth_that_is_given_back() -> None:
    watch = make_watch(persistent=False, worker=rising(40 * MIB))
    finding = one(watch, "memory.worker_growth")
    assert "40.0 MiB over each epoch each, given back when its workers end" in finding.title


def test_where_it_is_allocated() -> None:
    cause = GrowthCause(
        process="worker", grown=10 * MIB, traced=9 * MIB, file="data.py", line=12,
        type_name="bytes", count=3000, holder="dataset.cache",
    )  # fmt: skip
    watch = make_watch(worker=rising(3 * MIB), causes=(cause,))
    assert one(watch, "memory.dataset_cache_growth").title.endswith(
        "It is allocated at data.py:12 (3,000 more objects of type bytes), held by dataset.cache."
    )


def test_copies_on_write() -> None:
    watch = make_watch(
        epochs=12, copied=lambda time: 60 * MIB * (1 - np.exp(-time)), room=MemoryRoom(memory=GIB)
    )
    finding = one(watch, "memory.cow_growth")
    for word in ("items", "copy-on-write", "2 workers", "per worker", "no longer fits"):
        assert word in finding.title
    assert "SharedList" in finding.remedy
    assert [each.code for each in judge(watch) if is_leak(each)] == ["memory.cow_growth"]
    assert not any(each.code == "memory.no_growth" for each in judge(watch))


def rising_towards(plateau: float, per_epoch: float) -> Callable[[float], float]:
    return lambda time: plateau * (1 - np.exp(-per_epoch * time))


def test_copies_that_the_datasets_objects_do_not_explain_are_no_leak() -> None:
    jump = {"copied": lambda time: 82 * MIB if time > 2.5 else 0}
    watch = make_watch(**jump, readable=2 * MIB)
    finding = one(watch, "memory.cow_growth")
    assert (finding.severity, is_leak(finding)) == ("info", False)
    assert finding.title == (
        "2 workers copied 82.0 MiB each of what they share with the main process (copy-on-write), "
        "and not by reading items: the dataset has 2.00 MiB of Python objects. Python's collector "
        "goes through all objects once in each worker; or the workers write to arrays that they "
        "share. It ends: at most 400 MiB per worker."
    )
    assert one(watch, "memory.no_growth")
    for readable in (None, 70 * MIB):
        assert is_leak(one(make_watch(**jump, readable=readable), "memory.cow_growth"))


def test_a_rise_that_levels_off_is_no_leak_unless_it_does_not_fit() -> None:
    rise = rising_towards(200 * MIB, 0.2)
    finding = one(make_watch(main=rise), "memory.warm_up")
    assert finding.severity == "info"
    assert "by less each time: it levels off at" in finding.title
    too_little = make_watch(main=rise, room=MemoryRoom(memory=5 * MIB))
    assert one(too_little, "memory.warm_up").severity == "error"


def test_too_few_epochs() -> None:
    watch = make_watch(epochs=3, phases=1)
    finding = one(watch, "memory.undecided")
    assert epochs_wanted(watch) is not None
    assert f"about {epochs_wanted(watch)} more epochs would tell" in finding.title.replace(
        "epoch would", "epochs would"
    )


def test_page_cache() -> None:
    watch = make_watch(page_cache=rising(100 * MIB), mapped=rising(100 * MIB))
    assert "page cache" in one(watch, "memory.page_cache").title
    assert "page cache" in one(watch, "memory.mapped_files").title
    assert not any(is_leak(each) for each in judge(watch))


def test_shared_pages_summed() -> None:
    finding = one(make_watch(), "memory.shared_pages")
    assert "shared" in finding.title
    assert "PSS" in finding.title
    assert finding.severity == "info"


def test_a_plateau() -> None:
    watch = make_watch(worker=lambda time: 100 * MIB + 40 * MIB * min(1, time * 5))
    finding = one(watch, "memory.warm_up")
    assert "a plateau" in finding.title
    assert "stopped growing" in finding.title
    assert not any(is_leak(each) for each in judge(watch))


def test_what_rises_evenly_by_too_little_is_no_plateau() -> None:
    watch = make_watch(epochs=60, items=100_000, main=rising(MIB, 300 * MIB))
    assert not any(each.is_growing for each in everything(watch))
    assert "memory.warm_up" not in {each.code for each in judge(watch)}


def test_one_verdict_is_always_given() -> None:
    for watch in (
        make_watch(), make_watch(epochs=1), make_watch(main=rising(MIB)), make_watch(workers=0),
        make_watch(main=0, worker=0, workers=1, persistent=False),
    ):  # fmt: skip
        codes = {finding.code for finding in judge(watch)}
        assert any(is_leak(finding) for finding in judge(watch)) or codes & OPEN_OR_CALM


@pytest.mark.parametrize("worker", [100 * MIB, rising(20 * MIB)], ids=["still", "leaks"])
def test_workers_that_live_for_a_few_batches_are_not_acquitted(
    worker: float | Callable[[float], float],
) -> None:
    few = {"phases": 4, "persistent": False, "worker": worker}
    watch = make_watch(epochs=12, **few)
    assert epochs_wanted(watch) == 12, "not every batch may have been looked at"
    watch = make_watch(epochs=20, **few)
    assert epochs_wanted(watch) is None, "there are no more"
    finding = one(watch, "memory.undecided")
    assert finding.title == (
        "Not decided whether workers grow (memory, descriptors and threads of a worker): what "
        "they take is given back when they end with each epoch, and an epoch has too few batches "
        "to tell growth from what a start takes."
    )
    assert "persistent_workers=True" in finding.remedy
    assert not [each for each in judge(watch) if each.code == "memory.no_growth" or is_leak(each)]


def test_a_watch_of_one_look_says_so() -> None:
    watch = make_watch(epochs=1)
    watch = msgspec.structs.replace(watch, looks=watch.looks[:1], complete_epochs=0)
    (finding,) = judge(watch)
    assert finding.code == "memory.undecided"
    assert finding.title == "Not decided whether memory grows: the loop was over after 1 look."


def test_no_look_no_verdict() -> None:
    assert judge(MemoryWatch(looks=(), complete_epochs=0, num_workers=0)) == ()


def test_a_cache_that_is_full_by_now_is_told_with_what_it_took() -> None:
    watch = make_watch(
        epochs=40,
        phases=2,
        items=300,
        worker=lambda time: 80 * MIB + 70 * MIB * (1 - 0.5 ** math.floor(time + 0.999)),
        dataset_length=300,
    )
    (found,) = [each for each in judge(watch) if each.code == "memory.dataset_cache_growth"]
    assert "until it is full: 70.0 MiB each" in found.title
    assert "0 B" not in found.title
