"""A loop may run for weeks: what came and went leaves nothing in the loop's process."""

from __future__ import annotations

import gc
import os
import signal
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import elastic_datasets as ds
from test_elastic import numbers

from feedrate.loader.dataloader import DataLoader

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("transport", ["arena", "torch"])
def test_batches_leave_nothing(transport: Any) -> None:
    loader: Any = DataLoader(ds.Numbers(10**6), batch_size=1, num_workers=2, transport=transport)
    warm, end = 800, 2800
    before = 0
    for count, batch in enumerate(loader):
        if count == warm:
            before = held()
        if count == end:
            break
        del batch
    # One number that is kept of each batch would be 64 KB; buffers may be fuller than they were.
    assert held() - before < 32 * (end - warm)


def test_deaths_leave_no_more_than_their_record(capfd: pytest.CaptureFixture[str]) -> None:
    loader: Any = DataLoader(
        ds.Numbers(10**6), batch_size=4, num_workers=2, on_worker_death="replace"
    )
    before = deaths = 0
    for count, batch in enumerate(loader):
        assert numbers(batch) == list(range(4 * count, 4 * count + 4))
        if count % 20 == 0:
            os.kill(loader._latest()._workers[deaths % 2].pid, signal.SIGKILL)
            deaths += 1
            if deaths == 20:
                before = held()
            if deaths == 60:
                break
        del batch
    # A record with its indices takes 400 bytes; a pattern that Python keeps for each takes 2 KB.
    assert held() - before < 40 * 1000
    capfd.readouterr()
