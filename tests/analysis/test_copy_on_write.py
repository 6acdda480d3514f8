from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from watch_builder import GIB, MIB, make_watch, rising

from feedrate.analysis.copy_on_write import copy_on_write
from feedrate.host.memory import parse_smaps_rollup
from feedrate.memory_records import MemoryLook, MemoryRoom, MemoryWatch, ProcessReading

RECORDED = Path(__file__).parent / "recorded"


def test_what_is_copied_ends_where_nothing_is_shared() -> None:
    watch = make_watch(
        epochs=2, workers=4, copied=lambda time: 40 * MIB * time, inherited=300 * MIB,
        room=MemoryRoom(memory=GIB),
    )  # fmt: skip
    found = copy_on_write(watch)
    assert found is not None
    assert (found.workers, found.copied, found.left) == (4, 80 * MIB, 220 * MIB)
    assert found.expected is None
    # 100 MiB of a worker's own, and all 300 that it inherited.
    assert found.most == 400 * MIB
    assert found.total == 4 * 400 * MIB
    # 1 GiB was free with 4 x 180 MiB taken.
    assert found.too_many == (1024 + 4 * 180) // 400 + 1


@pytest.mark.parametrize("persistent", [True, False])
def test_a_curve_that_bends_is_followed(persistent: bool) -> None:
    watch = make_watch(
        epochs=3,
        phases=16,
        persistent=persistent,
        copied=lambda time: 200 * MIB * (1 - np.exp(-3 * time)),
        inherited=300 * MIB,
    )
    found = copy_on_write(watch)
    assert found is not None
    assert found.expected == pytest.approx(300 * MIB, rel=0.05)  # 100 of its own, 200 copied
    assert found.most == pytest.approx(400 * MIB)


def test_what_a_worker_allocates_is_no_copy() -> None:
    assert copy_on_write(make_watch(worker=rising(30 * MIB, 100 * MIB))) is None
    assert copy_on_write(make_watch()) is None
    assert copy_on_write(make_watch(workers=0)) is None


def test_what_the_interpreter_copies_is_not_worth_a_word() -> None:
    assert copy_on_write(make_watch(copied=lambda time: min(time, 1) * 2 * MIB)) is None


def recorded(name: str) -> MemoryWatch:
    """Return a watch of two workers from the texts in a file, main and worker in turns."""
    texts = (RECORDED / name).read_text("utf-8").split("\n\n")
    looks = []
    for number in range(len(texts) // 3):
        main, *workers = (
            ProcessReading(pid=pid, memory=parse_smaps_rollup(texts[3 * number + pid]))
            for pid in range(3)
        )
        looks.append(
            MemoryLook(
                at=float(number), epoch=0, phase=number * 3 / len(texts), items=1000 * number,
                main=main, workers=tuple(workers),
            )
        )  # fmt: skip
    return MemoryWatch(looks=tuple(looks), complete_epochs=0, num_workers=2)


def test_recorded_workers_that_read_a_list_of_dicts() -> None:
    """60,000 dicts; two forked workers read half of them each, in random order, in ten rounds."""
    found = copy_on_write(recorded("list_of_dicts.txt"))
    assert found is not None
    # What they copied in the end, read off the file, and what they still share is the most.
    assert 10 * MIB < found.copied < found.most
    assert found.expected is None or found.copied <= found.expected <= found.most


def test_recorded_workers_that_fill_a_cache() -> None:
    assert copy_on_write(recorded("cache.txt")) is None


def test_recorded_workers_that_map_a_file() -> None:
    assert copy_on_write(recorded("mapped_file.txt")) is None


def test_pages_that_a_worker_is_left_with_were_not_copied_by_it() -> None:
    """Of two processes that share a page one writes: it gets a copy, and the other the page."""
    watch = make_watch(workers=1, copied=lambda time: min(time, 1) * 80 * MIB)

    def touching(share: float) -> MemoryWatch:
        looks = []
        for look in watch.looks:
            (worker,) = look.workers
            own = worker.memory.private_dirty or 0
            touched = msgspec.structs.replace(worker, touched=round(share * own))
            looks.append(msgspec.structs.replace(look, workers=(touched,)))
        return msgspec.structs.replace(watch, looks=tuple(looks))

    assert copy_on_write(watch) is not None, "not every platform tells"
    assert copy_on_write(touching(1.0)) is not None
    assert copy_on_write(touching(0.05)) is None
