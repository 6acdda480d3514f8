"""Every way to end, in the middle of anything: no hang, nothing left behind, and on it goes.

What is left behind is found by the guard around each test: processes, also orphans of the programs
that are run here, descriptors, threads, shared memory.
"""

from __future__ import annotations

import os
import signal
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import elastic_datasets as ds
from test_elastic import let_go, numbers, run_scripts
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from feedrate.loader.dataloader import DataLoader

pytestmark = pytest.mark.torch


def all_numbers(loader: Any) -> list[int]:
    return [i for batch in loader for i in numbers(batch)]


# Interrupted


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """As in a program at a terminal; a background job may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class SlowOnce(ds.Numbers):
    """Item 17 takes very long as long as the file is there."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self.mark = mark

    def __getitem__(self, index: int) -> Any:
        while index == 17 and self.mark.exists():
            time.sleep(0.01)
        return super().__getitem__(index)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_while_it_waits_and_then_another_epoch(
    persistent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feedrate.loader.crew.JOIN_SECONDS", 0.5)  # one will not end by then
    mark = tmp_path / "mark"
    mark.touch()
    loader = DataLoader(SlowOnce(mark), batch_size=4, num_workers=2, persistent_workers=persistent)
    seen: list[int] = []

    def train() -> None:
        for batch in loader:
            seen.extend(numbers(batch))
            if len(seen) == 16:  # the next batch does not come
                threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()

    with pytest.raises(KeyboardInterrupt):
        train()
    assert seen == list(range(16))
    mark.unlink()
    assert all_numbers(loader) == list(range(60))


@pytest.mark.parametrize("persistent", [False, True])
def test_an_error_in_the_step_and_then_another_epoch(persistent: bool) -> None:
    loader = DataLoader(ds.Numbers(), batch_size=4, num_workers=2, persistent_workers=persistent)

    def train(errors: int) -> list[int]:
        seen: list[int] = []
        for batch in loader:
            seen += numbers(batch)
            if errors and len(seen) == 12:
                raise ZeroDivisionError
        return seen

    kept = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            train(1)
        kept.append(caught)  # its frames hold the iterator of the epoch that it ended
    assert train(0) == list(range(60))


class Fails:
    """A sampler that fails in the middle of an epoch, once."""

    def __init__(self) -> None:
        self.fails = True

    def __iter__(self) -> Iterator[int]:
        for index in range(60):
            if index == 30 and self.fails:
                self.fails = False
                raise LookupError("the sampler's own")
            yield index

    def __len__(self) -> int:
        return 60


@pytest.mark.parametrize("persistent", [False, True])
def test_an_error_in_the_sampler_is_raised_and_then_another_epoch(persistent: bool) -> None:
    loader: Any = DataLoader(
        ds.Numbers(), sampler=Fails(), batch_size=4, num_workers=2, persistent_workers=persistent
    )
    with pytest.raises(LookupError, match="the sampler's own"):
        all_numbers(loader)
    assert all_numbers(loader) == list(range(60))


def test_an_error_while_workers_are_started_leaves_none() -> None:
    class Local(ds.Numbers):
        """Cannot be pickled, so it cannot be sent to a spawned worker."""

    loader = DataLoader(Local(), num_workers=2, multiprocessing_context="spawn")
    with (
        pytest.raises((AttributeError, TypeError), match=r"Local|pickle"),
        pytest.warns(UserWarning, match="Got pickle error"),
    ):
        iter(loader)


# One loader and another


class Nests(Dataset[Any]):
    """Each item is the sum of what a loader of its own gives, in the worker."""

    def __init__(self, kind: Any, workers: int) -> None:
        self.kind = kind
        self.workers = workers

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        inner = self.kind(ds.Numbers(9), batch_size=3, num_workers=self.workers)
        return index + sum(int(each.sum()) for _, each in inner)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_loader_in_a_worker(method: str) -> None:
    loader = DataLoader(
        Nests(DataLoader, 0), batch_size=2, num_workers=2, multiprocessing_context=method
    )
    assert [i for batch in loader for i in batch.tolist()] == [36 + i for i in range(6)]


def test_a_loader_with_workers_in_a_worker_is_refused_as_torchs_is() -> None:
    texts = []
    for kind in (DataLoader, TorchLoader):
        with pytest.raises(AssertionError) as caught:
            list(kind(Nests(kind, 1), batch_size=2, num_workers=1))
        texts.append(str(caught.value).splitlines()[-1])
        let_go(caught)
    assert texts[0] == texts[1]
    assert "daemonic processes" in texts[0]


def test_two_loaders_side_by_side_of_which_one_is_longer() -> None:
    one = DataLoader(ds.Numbers(20), batch_size=4, num_workers=2)
    other = DataLoader(ds.Numbers(60), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        pairs = [(numbers(a), numbers(b)) for a, b in zip(one, other, strict=False)]
        assert [i for a, _ in pairs for i in a] == list(range(20))
        assert [i for _, b in pairs for i in b] == list(range(20))
    assert all_numbers(other) == list(range(60))


def test_two_iterators_of_one_loader_take_turns() -> None:
    loader = DataLoader(ds.Numbers(20), batch_size=4, num_workers=2)
    pairs = [(numbers(a), numbers(b)) for a, b in zip(loader, loader, strict=True)]
    assert [a for a, _ in pairs] == [b for _, b in pairs]
    assert [i for a, _ in pairs for i in a] == list(range(20))


# Forks


def fork_and_look(batch: Any) -> bool:
    """Fork a process that looks at a batch a little later; whether it found what it should."""
    data, index = (each.numpy() for each in batch)
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            time.sleep(0.01)
            code = int(not (data == index[:, None, None]).all())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_thread_forks_while_the_loop_goes_on() -> None:
    loader = DataLoader(ds.Numbers(2000), batch_size=4, num_workers=2)
    latest: list[Any] = []
    looks: list[bool] = []
    done = threading.Event()

    def fork() -> None:
        while not done.is_set():
            if latest:
                looks.append(fork_and_look(latest[-1]))

    thread = threading.Thread(target=fork)
    thread.start()
    try:
        seen = []
        while len(looks) < 10:
            seen = []
            for batch in loader:
                seen += numbers(batch)
                latest[:] = [batch]
        latest.clear()
    finally:
        done.set()
        thread.join()
    assert seen == list(range(2000))
    assert all(looks)


class LeavesAChild(ds.Numbers):
    """Item 17 kills its worker, which has forked a process that goes on, once."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self.mark = mark

    def __getitem__(self, index: int) -> Any:
        if index == 17 and not self.mark.exists():
            pid = os.fork()
            if pid == 0:
                signal.pause()
            self.mark.write_text(str(pid))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


@pytest.mark.parametrize("pins", [False, True])
def test_a_death_is_noticed_though_a_process_holds_all_that_the_worker_had(
    pins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pins:
        from feedrate.loader import torch_private

        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch_private, "pin", lambda data, device: data)
    mark = tmp_path / "pid"
    loader = DataLoader(
        LeavesAChild(mark),
        batch_size=4,
        num_workers=2,
        pin_memory=pins,
        on_worker_death="replace",
    )
    try:
        assert all_numbers(loader) == list(range(60))
        assert loader.stats().restarts == 1
    finally:
        os.kill(int(mark.read_text()), signal.SIGKILL)


# The program's end

PROGRAM = """
    import atexit, os, signal, sys, threading, time
    import torch
    from torch.utils.data import Dataset
    from feedrate.loader.dataloader import DataLoader

    class Data(Dataset):
        def __init__(self, seconds=0.0):
            self.seconds = seconds
        def __len__(self):
            return 400
        def __getitem__(self, index):
            time.sleep(self.seconds)
            return torch.full((64, 64), float(index))

    def make(seconds=0.0, **options):
        given = dict(batch_size=4, num_workers=2) | options
        return DataLoader(Data(seconds), **given)

    if __name__ == "__main__":
"""

# What a program does last: its lines, its exit code, and how its stderr ends.
ENDS: dict[str, tuple[str, int, str]] = {
    "kept in a cycle with its batches": (
        """
        loader = make(persistent_workers=True)
        iterator = iter(loader)
        kept = [next(iterator) for _ in range(3)]
        cycle = [kept, iterator]
        cycle.append(cycle)
        """,
        0,
        "",
    ),
    "two that live, with a batch kept by a thread": (
        """
        first, second = iter(make()), iter(make(persistent_workers=True))
        kept = [next(first), next(second)]
        stay = threading.Event()
        threading.Thread(target=lambda batch: stay.wait(), args=(kept[0],), daemon=True).start()
        """,
        0,
        "",
    ),
    "a thread waits in next()": (
        """
        began = threading.Event()
        def loop():
            iterator = iter(make(1000.0))
            began.set()
            next(iterator)
        threading.Thread(target=loop, daemon=True).start()
        began.wait()
        """,
        0,
        "",
    ),
    "a thread waits in next(), of a loader that replaces workers": (
        """
        began = threading.Event()
        def loop():
            iterator = iter(make(1000.0, on_worker_death="replace"))
            began.set()
            next(iterator)
        threading.Thread(target=loop, daemon=True).start()
        began.wait()
        """,
        0,
        "",
    ),
    "an error in the loop": (
        """
        for batch in make():
            raise ZeroDivisionError("in the step")
        """,
        1,
        "ZeroDivisionError: in the step\n",
    ),
    "sys.exit in the loop": (
        """
        for batch in make(persistent_workers=True):
            sys.exit(7)
        """,
        7,
        "",
    ),
    "os._exit in the loop": (
        """
        for batch in make():
            os._exit(5)
        """,
        5,
        "",
    ),
    "killed in the loop": (
        """
        for batch in make():
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        -signal.SIGKILL,
        "",
    ),
    "terminated while it waits": (
        """
        iterator = iter(make(0.2))
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
        next(iterator)
        """,
        -signal.SIGTERM,
        "",
    ),
    "another batch at exit": (
        """
        iterator = iter(make())
        next(iterator)
        atexit.register(lambda: sys.stdout.write(str(float(next(iterator)[0, 0, 0]))))
        """,
        0,
        "",
    ),
    "auto": (
        """
        iterator = iter(make(num_workers="auto"))
        kept = next(iterator)
        """,
        0,
        "",
    ),
    "a batch in a process that was forked": (
        """
        iterator = iter(make())
        kept = next(iterator)
        def look(batch):
            assert bool((batch == torch.arange(4.0)[:, None, None]).all())
            sys.exit(3)
        process = torch.multiprocessing.get_context("fork").Process(target=look, args=(kept,))
        process.start()
        del kept
        process.join()
        assert process.exitcode == 3
        assert float(next(iterator)[0, 0, 0]) == 4
        """,
        0,
        "",
    ),
    "spawned workers": (
        """
        iterator = iter(make(multiprocessing_context="spawn", num_workers=1))
        kept = next(iterator)
        """,
        0,
        "",
    ),
    "a server's workers": (
        """
        iterator = iter(make(multiprocessing_context="forkserver", num_workers=1))
        kept = next(iterator)
        """,
        0,
        "",
    ),
}


def test_the_programs_end(tmp_path: Path) -> None:
    scripts = [
        (textwrap.dedent(PROGRAM) + textwrap.indent(textwrap.dedent(lines), "    ")).strip() + "\n"
        for lines, _, _ in ENDS.values()
    ]
    ended = run_scripts(scripts, tmp_path)
    for done, (end, (_, code, errors)) in zip(ended, ENDS.items(), strict=True):
        assert done.returncode == code, (end, done.stderr)
        if errors:
            assert done.stderr.endswith(errors), (end, done.stderr)
            assert done.stderr.count("Traceback") == 1
        else:
            assert done.stderr == "", end
