"""The pilot: "auto" in a loop, with limits that change while it runs."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from feedrate.host.files import FakeReader
from feedrate.host.limits import ShmSpace
from feedrate.loader import pilot as pilot_module
from feedrate.loader.levels import Window
from feedrate.loader.pilot import Pilot

MIB = 2**20


WORKER = 100 * MIB


class Machine(FakeReader):
    """A machine without control groups, whose memory has ``room`` for workers and batches.

    Each of the workers takes `WORKER` and two batches of 1 MiB, whatever its process is.
    """

    def __init__(self, room: int = 2**34) -> None:
        super().__init__({})
        self.room = room
        self.workers: Callable[[], int] = lambda: 0

    def read(self, path: str) -> str | None:
        if path.endswith("/smaps_rollup"):
            return f"Rss: 1 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: {WORKER // 1024} kB\n"
        if path == "/proc/meminfo":
            free = self.room - self.workers() * (WORKER + 2 * MIB)
            return f"MemTotal: 67108864 kB\nMemAvailable: {free // 1024} kB\n"
        return None


class Loop:
    """Stands for an iterator that waits for storage: as many batches at once as there are workers.

    It counts time by itself, so that no clock is asked.
    """

    def __init__(self, pilot: Pilot, fetch: float = 0.08, step: float = 0.01) -> None:
        self.pilot = pilot
        self.level = 1
        self.prefetch = 2
        self.batch_bytes = MIB
        self.fills_shm = False
        self.levels = [1]
        self._fetch = fetch
        self._step = step
        pilot._main_cpu = lambda: 0.0

    @property
    def active(self) -> list[Any]:
        return [SimpleNamespace(process=SimpleNamespace(pid=pid)) for pid in range(self.level)]

    def take_fetches(self) -> list[tuple[float, float]]:
        return [(self._fetch, 0.001)]

    def set_level(self, level: int, prefetch: int) -> None:
        self.level, self.prefetch = level, prefetch
        self.levels.append(level)

    def run(self, batches: int) -> None:
        """Take so many batches; the loop waits for what its workers cannot give in time."""
        for _ in range(batches):
            wait = max(0.0, self._fetch / self.level - self._step)
            self.pilot.after_batch(self, wait, self._step)  # type: ignore[arg-type]

    def run_until(self, true: Any) -> None:
        for _ in range(20_000):
            if true():
                return
            self.run(1)
        raise AssertionError("what was waited for did not come")


def begun(machine: Machine) -> Loop:
    pilot = Pilot(reader=machine)
    loop = Loop(pilot)
    machine.workers = lambda: loop.level
    pilot.epoch_begins(loop)  # type: ignore[arg-type]
    return loop


def room_for(workers: int, more: int) -> int:
    return workers * (WORKER + 2 * MIB) + more


@pytest.fixture(autouse=True)
def roomy_shm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pilot_module, "shm_space", lambda: ShmSpace(2**40, 2**40))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


def test_it_shrinks_when_memory_gets_short_and_does_not_grow_back_at_once() -> None:
    machine = Machine()
    loop = begun(machine)
    loop.run_until(lambda: loop.pilot.controller.settled)
    high = loop.level
    assert high > 4
    machine.room = room_for(high, 90 * MIB)  # less than one worker takes
    loop.run_until(lambda: loop.level < high)
    decision = loop.pilot.history[-1]
    assert decision.level == loop.level == high - 1
    assert decision.reason == "memory is short: 90 MiB are free, and a worker takes 102 MiB"
    before = len(loop.levels)
    loop.run(5000)  # what it gave back would hold a worker again
    assert loop.levels[before:] == []
    machine.room = 2**34
    loop.run_until(lambda: loop.level == high)


def test_what_other_workers_left_in_the_queue_is_no_rate_of_those_that_remain() -> None:
    """It lasts for longer than a window where they make nearly as much as the loop takes."""
    seen: list[Window] = []
    pilot = Pilot(reader=Machine(), on_window=seen.append)
    loop = Loop(pilot, fetch=0.08, step=0.01)
    pilot.epoch_begins(loop)  # type: ignore[arg-type]
    loop.run_until(lambda: loop.level > 4)
    loop.set_level(7, 2)
    pilot.controller.level = 7
    before = len(seen)
    while len(seen) == before:
        pilot.after_batch(loop, 0.0, 0.01)  # type: ignore[arg-type]
    assert (seen[-1].level, seen[-1].wait) == (7, pytest.approx(0.08 / 7 - 0.01))
    assert seen[-1].rate == pytest.approx(7 / 0.08)


def test_it_goes_down_as_far_as_it_takes() -> None:
    machine = Machine()
    loop = begun(machine)
    loop.run_until(lambda: loop.pilot.controller.settled)
    machine.room = MIB
    loop.run_until(lambda: loop.level == 1)
    loop.run(2000)
    assert loop.level == 1


def test_it_grows_no_further_than_memory_allows() -> None:
    loop = begun(Machine(room_for(1, 520 * MIB)))  # 80 % of it hold four, and one is kept free
    loop.run_until(lambda: loop.pilot.controller.settled)
    assert max(loop.levels) == 4


@pytest.mark.parametrize("fills", [True, False])
def test_shared_memory_counts_where_batches_are_put_there(
    fills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot_module, "shm_space", lambda: ShmSpace(MIB, MIB))
    loop = begun(Machine())
    loop.fills_shm = fills
    loop.run_until(lambda: loop.pilot.controller.settled)
    assert (max(loop.levels) == 1) == fills


def test_ranks_of_one_host_share_its_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Pilot(reader=Machine()).cpus
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert Pilot(reader=Machine()).cpus == whole / 4


def test_ranks_of_one_host_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    machine = Machine(room_for(4, 4 * 400 * MIB))  # 80 % hold three for each, one is kept free
    loop = begun(machine)
    machine.workers = lambda: 4 * loop.level
    loop.run_until(lambda: loop.pilot.controller.settled)
    assert max(loop.levels) == 3


def test_every_decision_is_a_line_and_an_entry(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="feedrate")
    machine = Machine()
    loop = begun(machine)
    loop.run_until(lambda: loop.pilot.controller.settled)
    machine.room = MIB
    loop.run_until(lambda: loop.level == 1)
    lines = [record.getMessage() for record in caplog.records if record.name == "feedrate"]
    history = loop.pilot.history
    assert len(history) > 4
    assert lines == [
        f"{each.level} workers, prefetch_factor {each.prefetch}: {each.reason}" for each in history
    ]
    # Where it went is what it had decided, in order, and nothing else.
    moves = [each.level for each in history]
    assert [level for level, last in zip(moves, [1, *moves], strict=False) if level != last] == (
        loop.levels[1:]
    )


# A real loader


@pytest.mark.torch
def test_a_running_loader_shrinks_and_its_settings_are_none_until_settled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("torch")
    import elastic_datasets as ds

    from feedrate.loader.dataloader import DataLoader

    monkeypatch.setattr(pilot_module, "WINDOW_SECONDS", 0.1)
    monkeypatch.setattr(pilot_module, "SETTLED_SECONDS", 0.1)
    caplog.set_level(logging.INFO, logger="feedrate")
    machine = Machine()
    loader: Any = DataLoader(
        ds.Numbers(10**6, seconds=0.004), batch_size=4, num_workers="auto", max_workers=4
    )
    loader.pilot = Pilot(most=4, reader=machine)
    expected = 0
    short_at = None
    for _, index in loader:
        assert index.tolist() == list(range(expected, expected + 4))
        expected += 4
        settled = loader.pilot.controller.settled
        assert (loader.settings is None) == (not settled)
        if settled and short_at is None:
            assert loader.settings.num_workers == loader.active_workers > 2
            short_at = len(loader.history)
            machine.room = 50 * MIB
        if short_at is not None and loader.active_workers == 1:
            break
    assert short_at is not None
    shrunk = loader.history[short_at:]
    levels = [loader.history[short_at - 1].level, *(each.level for each in shrunk)]
    assert levels == list(range(levels[0], 0, -1))
    assert all("memory is short: 50 MiB are free" in each.reason for each in shrunk)
    lines = [record.getMessage() for record in caplog.records if record.name == "feedrate"]
    assert len(lines) == len(loader.history)


PROGRAM = """
    import os, sys
    sys.path.insert(0, {folder!r})
    group = {group!r}
    def write(name, text):
        with open(group + "/" + name, "w") as file:
            file.write(str(text))
    def read(name):
        with open(group + "/" + name) as file:
            return int(file.read())
    write("cgroup.procs", os.getpid())
    import torch
    from feedrate.loader import pilot
    from feedrate.loader.dataloader import DataLoader
    import time
    pilot.WINDOW_SECONDS = pilot.SETTLED_SECONDS = 0.3

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 10**6
        def __getitem__(self, index):
            time.sleep(0.05)
            return torch.full((2**23,), index % 251, dtype=torch.uint8)

    if __name__ == "__main__":
        loader = DataLoader(Data(), batch_size=4, num_workers="auto", max_workers=4)
        high = settled_at = None
        for count, batch in enumerate(loader):
            assert [int(each[0]) for each in batch] == [(4 * count + i) % 251 for i in range(4)]
            if settled_at is None and loader.settings is not None:
                settled_at = count
                write("memory.max_usage_in_bytes", 0)
            # All slots that the workers need have been made, and from now on there is room for
            # less than the batches that another worker would hold: above the most that all of
            # them took at one time, or a chance meeting of theirs ends one.
            if high is None and settled_at is not None and count == settled_at + 50:
                high = loader.active_workers
                assert high > 1, loader.history
                used = read("memory.max_usage_in_bytes")
                write("memory.limit_in_bytes", used + 32 * 2**20)
            if high is not None and loader.active_workers < high:
                break
        reason = loader.history[-1].reason
        assert reason.startswith("memory is short"), loader.history
        assert not loader.stats().deaths
        print("shrank")
"""


@pytest.mark.torch
@pytest.mark.needs_root
def test_a_real_memory_limit_takes_workers_away(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    group = Path(f"/sys/fs/cgroup/memory/feedrate-test-pilot-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(2 * 2**30))
    except OSError as error:
        pytest.skip(f"no memory group can be made: {error}")
    try:
        script = tmp_path / "short.py"
        script.write_text(
            textwrap.dedent(PROGRAM).format(folder=str(Path(__file__).parent), group=str(group))
        )
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout) == (0, "shrank\n"), done.stderr
    finally:
        until_gone = time.monotonic() + 10
        while group.exists() and time.monotonic() < until_gone:
            with contextlib.suppress(OSError):
                group.rmdir()
