from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import (
    MIB,
    make_benchmark,
    make_facts,
    make_metadata,
    make_peaks,
    make_run,
    make_suite,
)
from feedrate.records import Suite

CODE = "sweep.prefetch_memory"


def suite(*, shm: int | None = 1024 * MIB, peak: int | None = 30 * MIB, **facts: object) -> Suite:
    run = make_run(facts=make_facts(4, **facts), peaks=make_peaks(4, shm_bytes=peak))
    benchmark = make_benchmark(4, runs=[run])
    return make_suite([benchmark], metadata=make_metadata(shm_bytes=shm))


def test_settings_and_measurement_stand_beside_each_other() -> None:
    made = one(suite(), CODE)
    assert made.title == (
        "4 workers × 2 batches of 4.00 MiB = 32.0 MiB of batches can wait; /dev/shm held 30.0 MiB "
        "more at the peak than before."
    )
    assert made.severity == "info"
    assert evidence(made, "batches in flight, by the settings").value == 32 * MIB
    assert evidence(made, "peak in /dev/shm").value == 30 * MIB


@pytest.mark.parametrize(("shm", "peak"), [(36 * MIB, 30 * MIB), (64 * MIB, 60 * MIB)])
def test_nearly_full_is_a_warning(shm: int, peak: int) -> None:
    made = one(suite(shm=shm, peak=peak), CODE)
    assert made.severity == "warning"
    assert "of the" in made.title
    assert "--shm-size" in made.remedy


def test_unknown_sizes_are_left_out() -> None:
    made = one(suite(shm=None, peak=None), CODE)
    assert made.title == "4 workers × 2 batches of 4.00 MiB = 32.0 MiB of batches can wait."
    assert [item.name for item in made.evidence] == [
        "batches in flight, by the settings",
        "bytes of a batch",
    ]


def test_one_batch_each() -> None:
    assert "4 workers × 1 batch of 4.00 MiB = 16.0 MiB" in one(suite(prefetch_factor=1), CODE).title


def test_nothing_waits_without_workers_or_a_known_batch() -> None:
    assert none(suite(batch_bytes=0), CODE)
    assert none(make_suite(rates={0: [1.0]}), CODE)
    unknown = make_run(facts=None)
    assert none(make_suite([make_benchmark(2, runs=[unknown])]), CODE)


def test_it_speaks_of_the_balanced_choice() -> None:
    made = one(make_suite(rates={1: [50], 2: [95], 4: [100]}), CODE)
    assert made.title.startswith("2 workers × 2 batches")


def test_batches_of_feedrates_loader_do_not_wait_in_dev_shm() -> None:
    made = one(suite(shm=MIB, loader="feedrate"), CODE)
    assert made.title == "4 workers × 2 batches of 4.00 MiB = 32.0 MiB of batches can wait."
    assert made.severity == "info"
    assert one(suite(shm=MIB, loader="torch"), CODE).severity == "warning"
