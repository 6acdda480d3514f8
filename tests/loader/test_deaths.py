"""Workers that die: exactly the right batches arrive, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import elastic_datasets as ds
from test_elastic import numbers

from feedrate.loader.dataloader import DataLoader

pytestmark = pytest.mark.torch

DEADLY = [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, 0]


class Killer:
    """Kills a random worker of a loader again and again, in a thread."""

    def __init__(self, loader: Any, most: int, seed: int = 0) -> None:
        self.kills = 0
        self._loader = loader
        self._most = most
        self._rng = random.Random(seed)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while self.kills < self._most and not self._done.wait(self._rng.uniform(0.01, 0.08)):
            iterator = self._loader._latest()
            with contextlib.suppress(ProcessLookupError, IndexError, AttributeError, ValueError):
                process = self._rng.choice(iterator._workers)
                os.kill(process.pid, self._rng.choice([signal.SIGKILL, signal.SIGSEGV]))
                self.kills += 1
            del iterator

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def socket_folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("pymp-*")}


@pytest.mark.parametrize(("in_order", "transport"), [(True, "torch"), (False, "arena")])
def test_random_kills_lose_nothing(
    in_order: bool, transport: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    folders = socket_folders()
    loader = DataLoader(
        ds.Numbers(1200, seconds=0.001),
        batch_size=4,
        num_workers=4,
        persistent_workers=True,
        in_order=in_order,
        on_worker_death="replace",
        transport=transport,
    )
    deaths = 0
    with Killer(loader, most=10) as killer:
        while killer.kills < 10:
            seen = [i for batch in loader for i in numbers(batch)]
            assert seen == list(range(1200)) if in_order else sorted(seen) == list(range(1200))
    seen = [i for batch in loader for i in numbers(batch)]
    assert sorted(seen) == list(range(1200))
    deaths = loader.stats().restarts
    assert 1 <= deaths <= killer.kills  # two kills may hit one worker
    del loader, killer
    assert socket_folders() <= folders
    capfd.readouterr()  # torch's handler says "Unexpected segmentation fault" for each


@pytest.mark.parametrize(
    ("method", "number"),
    [("fork", number) for number in DEADLY] + [("spawn", signal.SIGKILL)],
)
def test_a_worker_that_crashes_once_costs_nothing(
    method: str, number: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loader = DataLoader(
        ds.KillsOnce(str(tmp_path / "mark"), int(number)),
        batch_size=4,
        num_workers=2,
        multiprocessing_context=method,
        on_worker_death="replace",
    )
    iterator = iter(loader)
    assert [i for batch in iterator for i in numbers(batch)] == list(range(60))
    (death,) = iterator.rescue.deaths
    assert death.exit_code == (-number if number else 3)
    assert death.indices == [16, 17, 18, 19]
    capfd.readouterr()


def test_a_batch_that_kills_every_worker_ends_it_with_its_indices() -> None:
    loader = DataLoader(ds.Kills(), batch_size=4, num_workers=2, on_worker_death="replace")
    with pytest.raises(RuntimeError, match=r"SIGKILL.*\[16, 17, 18, 19\]"):
        list(loader)


def test_a_users_exception_is_raised_as_torch_raises_it() -> None:
    loader = DataLoader(ds.Raises(), batch_size=8, num_workers=2, on_worker_death="replace")
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process"):
        list(loader)


def test_raise_says_what_torch_says() -> None:
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid \d+\) is killed by signal"):
        list(DataLoader(ds.Kills(), batch_size=4, num_workers=2))


def test_a_death_is_noticed_within_a_second_while_the_loop_waits() -> None:
    loader = DataLoader(ds.Sticks(), batch_size=4, num_workers=2)
    iterator = iter(loader)
    victim = iterator._workers[0]  # batch 4 is its third, and sticks
    noticed = []
    timer = threading.Timer(1.0, lambda: (noticed.append(time.monotonic()), victim.kill()))
    timer.start()
    with pytest.raises(RuntimeError, match="killed"):
        list(iterator)
    # The promise itself; joining a dead process takes milliseconds.
    assert time.monotonic() - noticed[0] < 1.0
    timer.join()


def test_no_signal_handler_throws_into_the_step() -> None:
    loader = DataLoader(ds.Numbers(200), batch_size=4, num_workers=2, on_worker_death="replace")
    iterator = iter(loader)
    seen = numbers(next(iterator))
    for process in iterator._workers:
        process.kill()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        sum(range(1000))  # a step, into which nothing may be thrown
    seen += [i for batch in iterator for i in numbers(batch)]
    assert seen == list(range(200))
    assert len(iterator.rescue.deaths) == 2


def test_deaths_between_epochs_are_made_good() -> None:
    loader = DataLoader(
        ds.Numbers(),
        batch_size=4,
        num_workers=3,
        persistent_workers=True,
        on_worker_death="replace",
    )
    for _ in range(3):
        assert [i for batch in loader for i in numbers(batch)] == list(range(60))
        loader._iterator._workers[1].kill()
        loader._iterator._workers[1].join()
    assert loader.stats().restarts == 2


def test_pinned_batches_survive_deaths_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from feedrate.loader import torch_private

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch_private, "pin", lambda data, device: data)
    loader = DataLoader(
        ds.KillsOnce(str(tmp_path / "mark"), signal.SIGKILL),
        batch_size=4,
        num_workers=2,
        pin_memory=True,
        on_worker_death="replace",
    )
    assert [i for batch in loader for i in numbers(batch)] == list(range(60))


GROUP = Path("/sys/fs/cgroup/memory/feedrate-test-elastic")

HUNGRY = """
    import os, sys
    sys.path.insert(0, {folder!r})
    open({group!r} + "/cgroup.procs", "w").write(str(os.getpid()))
    import elastic_datasets as ds
    from feedrate.loader.dataloader import DataLoader
    import torch
    ds.Eats.most = {each}
    if __name__ == "__main__":
        loader = DataLoader(ds.Eats(200), batch_size=4, num_workers=4, on_worker_death="replace",
                            persistent_workers=True)
        iterator = iter(loader)
        seen = [int(i) for _, index in iterator for i in index]
        assert seen == list(range(200)), seen
        assert len(iterator._workers) == loader.active_workers
        print(loader.active_workers, sorted({{d.cause for d in iterator.rescue.deaths}}))
"""


@pytest.mark.needs_root
def test_after_a_true_out_of_memory_kill_it_goes_on_with_fewer_workers(tmp_path: Path) -> None:
    try:
        GROUP.mkdir()
        (GROUP / "memory.limit_in_bytes").write_text(str(1200 * 2**20))
    except OSError as error:
        pytest.skip(f"no memory group can be made: {error}")
    try:
        script = tmp_path / "hungry.py"
        # The main process and what it shares take some 300 MiB; of four workers with 300 MiB each
        # two or three fit.
        script.write_text(
            textwrap.dedent(HUNGRY).format(
                folder=str(Path(__file__).parent), group=str(GROUP), each=300 * 2**20
            )
        )
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode == -signal.SIGKILL:
            pytest.skip("the kernel chose the main process")
        assert done.returncode == 0, done.stderr
        left, causes = done.stdout.split(maxsplit=1)
        assert 1 <= int(left) <= 3
        assert "out_of_memory" in causes
    finally:
        until_gone = time.monotonic() + 10
        while GROUP.exists() and time.monotonic() < until_gone:
            with contextlib.suppress(OSError):
                GROUP.rmdir()
