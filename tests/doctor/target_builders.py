"""Facts of targets as tests need them: a loader with nothing wrong, and changes to it."""

from __future__ import annotations

from typing import Any

import msgspec

from builders import make_facts
from doctor.machines import make_machine
from feedrate.doctor.checks import DoctorFacts, run_checks
from feedrate.doctor.target_checks import CHECKS
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import (
    Duel,
    Growth,
    Handles,
    Items,
    Leaf,
    Loop,
    Objects,
    Pickled,
    Question,
    Randomness,
    Setup,
)
from feedrate.records import Finding

LOADER = make_facts(dataset_length=1000, length=125, batch_size=8)
LEAF = Leaf(
    path="item", kind="tensor", dtype="uint8", shape=(3, 64, 64), bytes=12288, storage_bytes=12288
)


def make_setup(*, loader: dict[str, Any] | None = None, **changes: Any) -> Setup:
    setup = Setup(
        facts=LOADER, cpus=4.0, default_start_method="fork", sampler="torch.SequentialSampler"
    )
    facts = msgspec.structs.replace(LOADER, **(loader or {}))
    return msgspec.structs.replace(setup, facts=facts, **changes)


def make_items(**changes: Any) -> Items:
    items = Items(
        count=200, median=0.002, p99=0.003, longest=0.004, worst=7, cpu_share=0.9, leaves=(LEAF,)
    )
    return msgspec.structs.replace(items, **changes)


def make_loop(**changes: Any) -> Loop:
    loop = Loop(
        startup=0.03,
        batches=100,
        items=800,
        seconds=2.0,
        waits=(0.001,) * 100,
        steps=(0.019,) * 100,
        batch_bytes=98_304,
        batch_tensors=1,
        leaves=(LEAF,),
        has_step=True,
        worker_threads=1,
    )
    return msgspec.structs.replace(loop, **changes)


def make_duel(question: Question, value: int, gain: float) -> Duel:
    own = (100.0, 102.0)
    return Duel(
        question=question, value=value, own=own, other=(gain * 100.0, gain * 102.0), epochs=True
    )


def make_growth(**changes: Any) -> Growth:
    growth = Growth(
        items=1000,
        bytes=256 << 20,
        early=262_144.0,
        late=262_144.0,
        path="dataset.cache",
        entries=1000,
        all_read=True,
        first=0.002,
        again=0.0018,
    )
    return msgspec.structs.replace(growth, **changes)


def make_target(**changes: Any) -> TargetFacts:
    """Return the facts of a loader with nothing wrong."""
    facts: dict[str, Any] = {
        "target": "train.py:make_loader",
        "setup": make_setup(),
        "pickled": Pickled(bytes=2000, seconds=0.001),
        "objects": Objects(count=200, bytes=20_000, whole=True),
        "handles": Handles(),
        "items": make_items(),
        "loop": make_loop(),
        "randomness": Randomness(sources=()),
    }
    return TargetFacts(**(facts | changes))


def found_in(target: TargetFacts) -> dict[str, Finding]:
    """Return what all checks find, by code; each code is found once at most."""
    findings, _ = run_checks(CHECKS, DoctorFacts(make_machine(), target))
    by_code = {finding.code: finding for finding in findings}
    assert len(by_code) == len(findings)
    return by_code
