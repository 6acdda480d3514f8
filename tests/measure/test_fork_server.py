"""Children that are forked from one process: they do what others do, and end as they do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from odd_children import spec, wait_until

from feedrate.measure import wire
from feedrate.measure.child_process import ChildProcess, child_environment
from feedrate.measure.executor import Outcome, SubprocessExecutor
from feedrate.measure.fork_server import AVAILABLE, CannotForkError, ForkServer
from feedrate.measure.observer import Observer

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not AVAILABLE, reason="nothing is forked here"),
]


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with contextlib.closing(ForkServer(child_environment())) as server:
        yield server


def execute(forks: ForkServer | None, name: str, workers: int = 2, **changes: object) -> Outcome:
    return SubprocessExecutor(forks=forks).execute(
        spec(name, workers, **changes), timeout=60, on_message=lambda _: None
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_forked_child_measures_the_same(server: ForkServer, workers: int):
    forked, begun = execute(server, "healthy", workers), execute(None, "healthy", workers)
    assert forked.error is None
    assert forked.facts == begun.facts
    assert forked.ready is not None
    assert begun.ready is not None
    assert forked.ready.versions == begun.ready.versions
    assert [(e.items, e.batches) for e in forked.epochs] == [(64, 8)] * 2


@pytest.mark.parametrize(
    ("name", "workers"),
    [("raises", 2), ("kills", 2), ("kills", 0), ("leaves_at_once", 2)],
)
def test_it_fails_with_the_same_words(server: ForkServer, name: str, workers: int):
    forked, begun = execute(server, name, workers).error, execute(None, name, workers).error
    assert forked is not None
    assert begun is not None
    assert (forked.kind, forked.sentence) == (begun.kind, begun.sentence)


def test_random_numbers_are_no_others(server: ForkServer):
    said = [execute(server, "tells_random_numbers", seed=None).error for _ in range(2)]
    first, second = (error.sentence.split() for error in said if error is not None)
    differ = [one != other for one, other in zip(first, second, strict=True)]
    assert sum(differ) == 2


def test_its_memory_is_that_of_a_child_of_its_own(server: ForkServer):
    def main_pss(forks: ForkServer | None) -> int:
        outcome = execute(forks, "healthy", step_seconds=0.1)
        pss = outcome.snapshots[-1].main.pss
        assert pss is not None
        return pss

    # not the half or the third of it that copies of the same pages would leave; what libraries
    # other programs of this machine have in common with either is divided anew at each look
    assert main_pss(server) > 0.7 * main_pss(None)


def test_its_cpu_time_is_no_other_programs(server: ForkServer, monkeypatch: pytest.MonkeyPatch):
    told: list[float] = []

    class Told(Observer):
        def close(self, cpu_seconds_apart: float = 0.0) -> None:
            told.append(cpu_seconds_apart)
            super().close(cpu_seconds_apart)

    for forks in (server, None):
        SubprocessExecutor(Told, forks=forks).execute(
            spec("takes_half_a_second_of_cpu", 0), timeout=60, on_message=lambda _: None
        )
    forked, begun = told
    assert forked >= 0.5
    assert begun == 0.0  # of which the operating system tells

    taken = iter([10.0, 14.0])
    monkeypatch.setattr("feedrate.measure.observer.CpuClock.busy_seconds", lambda _: next(taken))
    monkeypatch.setattr("feedrate.measure.observer._own_cpu_seconds", lambda: 1.0)
    observer = Observer()
    observer.close(3.0)
    assert observer.other_cpu_seconds() == pytest.approx(1.0)


def test_a_script_begins_with_an_interpreter_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "train.py"
    file.write_text("import sys\nassert 'torch' not in sys.modules\n")
    script = wire.ScriptSpec(place=str(file))
    monkeypatch.setattr(ForkServer, "prepare", lambda _: pytest.fail("it was prepared"))
    asked = wire.ChildSpec(
        target="train.py",
        settings=None,
        epochs=1,
        script=script,
        session=wire.Look(seconds=1.0),
    )
    forks = ForkServer(child_environment())
    outcome = SubprocessExecutor(forks=forks).execute(asked, timeout=60, on_message=lambda _: None)
    assert outcome.error is not None
    assert "without importing torch" in outcome.error.sentence


def test_one_that_was_killed_is_done_without(server: ForkServer):
    assert execute(server, "healthy").error is None
    [process] = [p for p in psutil.Process().children() if "forking" in " ".join(p.cmdline())]
    process.kill()
    process.wait()
    assert execute(server, "healthy").error is None
    with pytest.raises(CannotForkError):
        server.fork()


def test_its_death_ends_the_child_that_runs(server: ForkServer):
    server.prepare()
    with ChildProcess(spec("sleeps", 2), server) as child:
        started = child.read(20)
        assert isinstance(started, wire.Started)
        main = psutil.Process(started.pid)
        wait_until(lambda: len(main.children()) == 2)
        tree = [main, *main.children(), psutil.Process(child.originals[1])]
        os.kill(child.originals[0], signal.SIGKILL)
        wait_until(lambda: isinstance(child.read(0.2), int))
    assert not psutil.wait_procs(tree, 20)[1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_parent(number: signal.Signals):
    parent = """
        import contextlib, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from feedrate.measure import wire
        from feedrate.measure.child_process import child_environment
        from feedrate.measure.executor import SubprocessExecutor
        from feedrate.measure.fork_server import ForkServer
        import msgspec

        spec = msgspec.json.decode(sys.argv[1], type=wire.ChildSpec)
        def tell(message):
            print(getattr(message, "pid", 0), flush=True)
        with contextlib.closing(ForkServer(child_environment())) as forks:
            SubprocessExecutor(forks=forks).execute(spec, timeout=60, on_message=tell)
        print("ended", flush=True)
    """
    asked = msgspec.json.encode(spec("sleeps", 2)).decode()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(parent), asked], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        main = psutil.Process(int(process.stdout.readline()))
        wait_until(lambda: len(main.children()) == 2)
        tree = psutil.Process(process.pid).children(recursive=True)
        assert len(tree) == 5  # what is forked from, the keeper, the child and its two workers
        process.send_signal(number)
        said = process.stdout.read()
    assert ("ended" in said) == (number == signal.SIGINT)
    assert not psutil.wait_procs(tree, 20)[1]


@pytest.mark.parametrize(
    ("before", "can"),
    [
        ("pass", "True"),
        ("import feedrate.measure.device as d; d.accelerator_name = lambda: 'a GPU'", "False"),
        ("import feedrate.measure.device as d; d.accelerator_name = lambda: 1 / 0", "False"),
        ("import threading; threading.Thread(target=input, daemon=True).start()", "False"),
    ],
)
def test_where_an_accelerator_or_a_thread_is_nothing_is_forked(before: str, can: str):
    program = f"from feedrate.measure import forking; {before}; print(forking._can_be_copied())"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == can


def test_without_torch_children_say_so_themselves(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    environment = child_environment() | {"PYTHONPATH": str(tmp_path)}
    with contextlib.closing(ForkServer(environment)) as server:
        server.prepare()
        with pytest.raises(CannotForkError):
            server.fork()


def test_where_no_process_can_be_started_there_is_none_to_fork_from(
    monkeypatch: pytest.MonkeyPatch,
):
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("feedrate.measure.fork_server.subprocess.Popen", refused)
    server = ForkServer(child_environment())
    before = psutil.Process().num_fds()
    server.prepare()
    with pytest.raises(CannotForkError):
        server.fork()
    assert psutil.Process().num_fds() == before
