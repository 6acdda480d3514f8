"""The file of a watch: one recorded golden file, never edited, with every record of memory."""

from __future__ import annotations

import json
from pathlib import Path

from feedrate.api import judged
from feedrate.memory_records import Cause, GrowthCause
from feedrate.store import decode, encode, load

GOLDEN = Path(__file__).parent.parent / "golden" / "leaks-v1.json"
MIB = 2**20


def test_golden_file_of_a_watch() -> None:
    suite = load(GOLDEN)
    assert suite.kind == "leaks"
    watch = suite.watch
    assert watch is not None
    assert (watch.complete_epochs, watch.num_workers, len(watch.looks)) == (9, 1, 18)
    look = watch.looks[1]
    assert (look.epoch, look.phase, look.items) == (0, 1.0, 100)
    assert (look.main.memory.anonymous, look.main.swapped) == (301 * MIB, 4096)
    assert (look.main.virtual, look.main.descriptors, look.main.threads) == (4096 * MIB, 30, 5)
    assert [worker.pid for worker in look.workers] == [11]
    assert [other.pid for other in look.others] == [12]
    assert look.device is not None
    assert (look.device.allocated, look.device.reserved, look.device.pinned) == (MIB, 2 * MIB, 512)
    assert (look.shm_bytes, look.shm_files) == (3 * MIB, 2)
    assert (look.page_cache, look.available) == (64 * MIB, 8192 * MIB)
    assert watch.room.memory_source == "cgroup limit"
    assert watch.room.worker_descriptors == 1024
    assert (watch.seconds, watch.spent_seconds) == (90.0, 0.25)
    assert watch.causes == (
        GrowthCause(
            process="main",
            grown=9 * MIB,
            traced=8 * MIB,
            file="train.py",
            line=9,
            type_name="Tensor",
            count=900,
            holder="train.LOSSES",
        ),
    )
    assert watch.objects == (
        Cause(
            process="main",
            file="train.py",
            line=9,
            type_name="Tensor",
            count=100.0,
            bytes_per_epoch=float(MIB),
            held_by=("module train.LOSSES", "list"),
        ),
    )


def test_what_the_golden_file_holds_is_written_again() -> None:
    suite = load(GOLDEN)
    assert _holds(json.loads(encode(suite)), json.loads(GOLDEN.read_bytes()))
    assert decode(encode(suite), "x") == suite


def test_its_findings_follow_from_the_file_alone() -> None:
    found = {finding.code for finding in judged(load(GOLDEN)).findings}
    assert "memory.main_step_growth" in found


def _holds(value: object, recorded: object) -> bool:
    """Whether a value is what was recorded, where a later version may have added fields."""
    if isinstance(recorded, dict) and isinstance(value, dict):
        return all(key in value and _holds(value[key], recorded[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(value, list):
        same = len(value) == len(recorded)
        return same and all(map(_holds, value, recorded))
    return value == recorded
