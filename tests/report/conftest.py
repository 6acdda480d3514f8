"""Suites as reports meet them."""

from __future__ import annotations

import pytest

from builders import make_benchmark, make_failed_run, make_metadata, make_suite
from feedrate.records import Benchmark, DevicePeaks, Suite

# The shape of the published sweep: two conditions, single runs, then the top again five times.
LIGHT = {0: 30268.0, 1: 31414.0, 2: 60881.0, 4: 108782.0, 8: 116828.0, 12: 119045.0, 16: 117262.0}
AUGMENTED = {0: 8830.0, 1: 10422.0, 2: 20626.0, 4: 41292.0, 8: 70398.0, 12: 70322.0, 16: 64050.0}
REPEATED = {
    8: (54306.0, 55660.0, 55196.0, 55000.0, 55300.0),
    12: (61716.0, 62660.0, 62103.0, 62000.0, 62200.0),
    16: (62614.0, 63974.0, 63753.0, 63700.0, 63800.0),
}
PINNED = {False: (36700.0, 36400.0, 37200.0), True: (36690.0, 36000.0, 37500.0)}


def _single(condition: str, rates: dict[int, float]) -> list[Benchmark]:
    device = DevicePeaks(name="Example GPU", allocated_bytes=45 * 2**20, utilization=0.31)
    return [
        make_benchmark(count, [rate], condition=condition, run_fields={"device": device})
        for count, rate in rates.items()
    ]


@pytest.fixture
def published() -> Suite:
    """Two conditions, single and repeated runs, pin_memory off and on, an accelerator."""
    return make_suite(
        [
            *_single("light", LIGHT),
            *_single("augmented", AUGMENTED),
            *(
                make_benchmark(count, rates, condition="augmented", part="repeated")
                for count, rates in REPEATED.items()
            ),
            *(
                make_benchmark(
                    4, rates, condition="augmented", part="pin_memory", pin_memory=pinned
                )
                for pinned, rates in PINNED.items()
            ),
        ],
        metadata=make_metadata(target="fashion-mnist", accelerator="Example GPU"),
    )


@pytest.fixture
def troubled() -> Suite:
    """A sweep in which a run failed, a setting failed, one was skipped and one never came."""
    killed = make_failed_run("A worker was killed; use fewer workers.", kind="worker_died")
    partly = make_benchmark(2, [880.0, 890.0])
    return make_suite(
        [
            make_benchmark(0, [500.0, 505.0, 510.0]),
            make_benchmark(2, runs=[*partly.runs, killed]),
            make_benchmark(4, runs=[killed, killed, killed]),
            make_benchmark(8, skipped="8 workers need 2.00 GiB of /dev/shm and 1.00 GiB are free."),
            make_benchmark(16),
        ]
    )
