"""The executor, with real children: what comes back, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from odd_children import spec, wait_until

from feedrate.measure import wire
from feedrate.measure.executor import Outcome, SubprocessExecutor
from feedrate.measure.hang import Patience
from feedrate.measure.stacks import DUMP_SIGNAL
from feedrate.settings import LoaderSettings

pytestmark = pytest.mark.torch


def execute(
    name: str, workers: int = 2, timeout: float = 60, **changes: object
) -> tuple[Outcome, list[wire.Message]]:
    messages: list[wire.Message] = []
    outcome = SubprocessExecutor().execute(
        spec(name, workers, **changes), timeout=timeout, on_message=messages.append
    )
    return outcome, messages


@pytest.mark.parametrize("workers", [0, 2])
def test_a_healthy_loader_is_measured(workers: int):
    outcome, messages = execute("healthy", workers)
    assert outcome.error is None
    assert [(e.items, e.batches, e.complete) for e in outcome.epochs] == [(64, 8, True)] * 2
    assert [type(m).__name__ for m in messages if not isinstance(m, wire.Progress)] == [
        "Started",
        "Ready",
        "EpochDone",
        "EpochDone",
        "Finished",
    ]
    assert outcome.facts is not None
    assert outcome.facts.num_workers == workers
    assert outcome.facts.batch_bytes == 8 * (8 * 4 + 8)  # eight floats and an index, eight times
    assert outcome.facts.dataset_length == 64
    assert all(e.main_cpu_seconds is not None for e in outcome.epochs)


def test_memory_of_workers_is_seen_without_counting_shared_pages_twice():
    outcome, _ = execute("healthy", step_seconds=0.1)
    assert outcome.peaks is not None
    assert outcome.peaks.memory_kind == "pss"
    assert outcome.peaks.workers == 2
    shot = next(s for s in outcome.snapshots if s.worker_count == 2)
    assert shot.workers is not None
    assert shot.workers.pss is not None
    assert shot.workers.pss < shot.workers.rss  # forked workers share most of their pages
    assert shot.worker_descriptors


def test_the_same_seed_gives_the_same_order():
    with ThreadPoolExecutor(2) as pool:
        run = functools.partial(execute, "healthy", 2, max_batches=2)
        first = [outcome for outcome, _ in pool.map(lambda seed: run(seed=seed), (1, 1))]
    assert [o.epochs[0].items for o in first] == [16, 16]
    assert not first[0].epochs[0].complete


FAILING = [
    ("raises", 2, "exception", r"ValueError: item 37 is broken \(odd_loaders.py, line \d+"),
    ("raises", 0, "exception", "ValueError: item 37 is broken"),
    ("kills", 2, "killed", "a worker died"),
    ("kills", 0, "killed", "the main process was killed"),
    ("returns_nothing", 2, "exception", "an item is None"),
    ("empty", 2, "no_batches", "its dataset is empty"),
    ("smaller_than_a_batch", 2, "no_batches", "5 items, fewer than one batch of 8"),
    ("empty_stream", 2, "no_batches", "IterableDataset yielded nothing"),
    ("ends_at_once", 0, "exception", r"dataset raised StopIteration \(odd_loaders.py, line"),
    ("ends_at_once", 2, "exception", r"dataset raised StopIteration \(odd_loaders.py, line"),
    ("ends_early", 0, "exception", "it ends a loop without a word"),
    ("ends_early", 2, "exception", "it ends a loop without a word"),
    ("no_length", 2, "exception", "give the dataset a __len__"),
    ("something_else", 2, "target", "returned an object of type list"),
    ("forgets_to_return", 2, "target", "is a return missing"),
    ("fails", 2, "target", "FileNotFoundError: no folder photos"),
    ("exits", 2, "target", "sys.exit"),
    ("leaves_at_once", 2, "exited", "process ended before it was measured"),
    ("is_not_there", 2, "target", "has no 'is_not_there'"),
]


def test_what_fails_is_one_sentence():
    # Two at a time: nearly all of what each takes is the import of torch, on one CPU.
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda each: execute(each[0], each[1])[0].error, FAILING))
    for error, (name, workers, kind, says) in zip(ran, FAILING, strict=True):
        assert error is not None, (name, workers)
        assert error.kind == kind, (name, workers, error.sentence)
        assert re.search(says, error.sentence), (name, workers, error.sentence)
        assert "\n" not in error.sentence


def test_what_cannot_be_pickled_fails_under_spawn_with_the_way_out():
    settings = LoaderSettings(num_workers=1, start_method="spawn")
    outcome, _ = execute("not_picklable", settings=settings)
    assert outcome.error is not None
    assert "--start-method fork" in outcome.error.sentence


def test_an_iterable_dataset_is_measured():
    outcome, _ = execute("stream", 1)
    assert outcome.error is None
    assert outcome.facts is not None
    assert outcome.facts.iterable
    assert outcome.facts.length is None


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_may_end_by_its_own_stop_iteration(workers: int):
    outcome, _ = execute("stream_of_own", workers)
    assert outcome.error is None
    assert [epoch.items for epoch in outcome.epochs] == [64, 64]


def test_a_step_is_called_and_a_simulated_one_takes_its_time():
    outcome, _ = execute("with_step", 0)
    assert outcome.facts is not None
    assert outcome.facts.has_step
    outcome, _ = execute("healthy", 0, step_seconds=0.01)
    assert min(outcome.epochs[1].batch_steps) >= 0.01  # sleep never ends early


@pytest.mark.usefixtures("patient_until_a_batch")
def test_a_hang_is_ended_and_says_where_the_main_process_stood():
    outcome, _ = execute("sleeps", 0, timeout=3)
    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    assert re.search(
        r"the main process stood in __getitem__ \(odd_loaders.py, line \d+\); ",
        outcome.error.sentence,
    )
    assert "Main process:\nFatal Python error: Aborted" in outcome.error.traceback


@pytest.fixture
def patient_until_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count silence from the first batch on: on a busy machine what comes before takes long."""

    class UntilABatch(Patience):
        def silence(self, now: float) -> float:
            return super().silence(now) if self.longest else 0.0

    monkeypatch.setattr("feedrate.measure.executor.Patience", UntilABatch)


@pytest.mark.skipif(DUMP_SIGNAL is None, reason="no signal asks workers for their stacks here")
@pytest.mark.usefixtures("patient_until_a_batch")
def test_a_hang_says_where_the_worker_stood():
    outcome, _ = execute("sleeps", 2, timeout=3)
    assert outcome.error is not None
    assert re.search(
        r"in the middle of an epoch: a worker stood in __getitem__ \(odd_loaders.py, line \d+\) "
        "while the main process waited for a batch; ",
        outcome.error.sentence,
    )
    whole = outcome.error.traceback
    assert re.search(r"Worker 1 of 2:\n.*Worker 2 of 2:\n.*Main process:\n", whole, re.DOTALL)
    assert "dataloader.py" in whole.partition("Main process:")[2]  # waits in torch's own loop


@pytest.mark.usefixtures("patient_until_a_batch")
def test_where_spawned_workers_stood_cannot_be_seen():
    settings = LoaderSettings(num_workers=1, start_method="spawn")
    outcome, _ = execute("sleeps", timeout=3, settings=settings)
    assert outcome.error is not None
    assert "waited for a batch, and where its workers stood cannot be seen" in (
        outcome.error.sentence
    )
    assert "Worker 1 of 1:\n(gave no stack)" in outcome.error.traceback


def test_a_batch_that_cannot_be_sent_is_not_waited_for_until_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("feedrate.measure.hang.LOST_SECONDS", 0.5)
    outcome, _ = execute("cannot_be_sent", 2, timeout=1000)
    assert outcome.error is not None
    assert outcome.error.kind == "exception"
    assert re.match(
        r"a worker could not send its batch \(\w+: .*lambda.*\), and torch waits for it for ever",
        outcome.error.sentence,
    )
    assert "in _feed" in outcome.error.traceback


def test_a_first_step_that_hangs_is_no_missing_batch_and_chatter_no_sign_of_progress():
    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(execute, "step_hangs", 0, timeout=6)
        chatters = pool.submit(execute, "hangs_and_chatters", 0, timeout=6)
    error = stuck.result()[0].error
    assert error is not None
    assert "in the middle of an epoch" in error.sentence
    error = chatters.result()[0].error
    assert error is not None
    assert error.kind == "timeout"


def test_a_thread_that_never_ends_takes_nothing_of_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("feedrate.measure.executor._LAST_SECONDS", 0.5)
    outcome, _ = execute("keeps_a_thread", 0, timeout=1000)
    assert outcome.error is None
    assert len(outcome.epochs) == 2


def test_workers_killed_in_the_midst_leave_no_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    execute("sleeps", 2, timeout=6)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("subprocess.Popen.__init__", OSError(errno.EMFILE, "Too many open files"), "open files"),
        ("threading.Thread.start", RuntimeError("can't start new thread"), "new thread"),
    ],
)
def test_a_process_that_cannot_be_started_is_a_failed_run(
    monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, says: str
):
    def refuse(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(name, refuse)
        outcome, _ = execute("healthy", 0)
    assert outcome.error is not None
    assert re.fullmatch(
        rf"the measuring process cannot be started \(.*{says}\): .*", outcome.error.sentence
    )


def test_output_is_kept_for_a_child_that_dies_and_megabytes_do_no_harm():
    outcome, _ = execute("prints_megabytes", 0)
    assert outcome.error is None


def test_a_daemon_of_the_target_is_ended():
    execute("starts_a_daemon", 0)
    assert not _running("left-behind-by-target")


def _running(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


PARENT = """
    import json, os, signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
    from feedrate.measure import wire
    from feedrate.measure.executor import SubprocessExecutor
    import msgspec

    spec = msgspec.json.decode(sys.argv[1], type=wire.ChildSpec)
    def tell(message):
        if isinstance(message, wire.Started):
            print("started", message.pid, flush=True)
        if isinstance(message, wire.Progress):
            print("batch", flush=True)
    outcome = SubprocessExecutor().execute(spec, timeout=60, on_message=tell)
    print("ended", outcome.error.kind if outcome.error else "well", flush=True)
"""


@contextlib.contextmanager
def parent(child: wire.ChildSpec):
    """Start a process that runs the executor; yield it and the pid of the measured child."""
    import msgspec

    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), msgspec.json.encode(child).decode()],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        pid = int(process.stdout.readline().split()[1])
        assert process.stdout.readline() == "batch\n"
        yield process, pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _tree(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("name", ["sleeps", "deaf_to_interrupts"])
def test_a_killed_parent_leaves_nothing(name: str):
    with parent(spec(name)) as (process, _):
        tree = _tree(process)
        assert len(tree) >= 4  # keeper, child, two workers
        process.kill()
        wait_until(lambda: not any(_alive(p) for p in tree), 10)


def test_a_killed_child_leaves_no_workers_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with parent(spec("sleeps_with_scratch")) as (process, pid):
        assert len(list(tmp_path.glob("feedrate-causes-*/seen.json"))) == 1
        tree = _tree(process)
        os.kill(pid, signal.SIGKILL)
        assert process.stdout is not None
        wait_until(lambda: process.stdout.readline() == "ended killed\n")  # type: ignore[union-attr]
        assert not any(_alive(p) for p in tree)
        assert not list(tmp_path.glob("feedrate-*"))


def test_a_killed_keeper_leaves_nothing():
    with parent(spec("sleeps")) as (process, pid):
        tree = _tree(process)
        os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
        wait_until(lambda: not any(_alive(p) for p in tree), 10)


@pytest.mark.parametrize("name", ["sleeps", "deaf_to_interrupts"])
def test_an_interrupt_ends_every_worker_within_five_seconds(name: str):
    with parent(spec(name)) as (process, _):
        tree = _tree(process)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        assert process.stdout is not None
        line = process.stdout.readline()
        while line.startswith("batch"):
            line = process.stdout.readline()
        # The one absolute time here is the promise itself, and generous against it.
        assert time.monotonic() - started < 5
        assert line == "ended interrupted\n"
        assert not any(_alive(p) for p in tree)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_child_sees_neither_the_messages_nor_our_stdin(tmp_path: Path):
    target = tmp_path / "looks.py"
    target.write_text(
        textwrap.dedent(
            f"""
            import json, os, sys
            from torch.utils.data import DataLoader
            def make():
                seen = dict(argv=sys.argv, stdin=sys.stdin.read(), path0=sys.path[0])
                open({str(tmp_path / "seen.json")!r}, "w").write(json.dumps(seen))
                os.write(1, b"garbage that is no message\\n")
                return DataLoader(list(range(8)))
            """
        )
    )
    outcome = SubprocessExecutor().execute(
        wire.ChildSpec(target=f"{target}:make", settings=LoaderSettings(num_workers=0), epochs=1),
        timeout=60,
        on_message=lambda _: None,
    )
    assert outcome.error is None
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen == {"argv": [str(target)], "stdin": "", "path0": str(tmp_path)}
