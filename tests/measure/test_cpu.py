"""CPU seconds of workers, with workers that burn a known amount."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection

import pytest

from feedrate.measure.cpu import worker_cpu_seconds

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
BURNT = 0.2
# Living processes are counted in ticks of 10 ms, user and system time each.
TICKS = 0.03


def burn(pipe: Connection, grandchild: bool) -> None:
    if grandchild:
        context = multiprocessing.get_context("fork")
        child = context.Process(target=burn, args=(pipe, False))
        child.start()
        child.join()
        return
    start = time.process_time()
    while time.process_time() - start < BURNT:
        pass
    pipe.send(time.process_time())
    pipe.recv()


def seconds() -> float:
    told = worker_cpu_seconds()
    assert told is not None
    return told


@pytest.mark.parametrize("grandchild", [False, True])
def test_what_workers_burn_is_seen_while_they_live_and_after(grandchild: bool):
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with ours, theirs:
        before = seconds()
        worker = context.Process(target=burn, args=(theirs, grandchild))
        worker.start()
        burnt = ours.recv()
        living = seconds() - before
        ours.send("go")
        worker.join()
        worker.close()
        ended = seconds() - before
    assert burnt >= BURNT
    assert living >= burnt - TICKS
    assert ended >= burnt - TICKS  # nothing is lost when they end


def test_our_own_seconds_are_no_workers():
    before = seconds()
    start = time.process_time()
    while time.process_time() - start < 0.1:
        pass
    assert seconds() - before < 0.1


def test_a_platform_that_keeps_no_account_tells_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.platform", "win32")
    assert worker_cpu_seconds() is None


def test_a_worker_that_ends_while_it_is_looked_at_is_left_out(monkeypatch: pytest.MonkeyPatch):
    import psutil

    class Gone:
        def cpu_times(self) -> None:
            raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(psutil.Process, "children", lambda self, recursive: [Gone()])
    assert seconds() >= 0
