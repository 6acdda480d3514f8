"""The guard itself: tests in a pytest of their own leave things behind, or do not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest_plugins = ["pytester"]

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")

LEAVING = """
import gc, os, subprocess, sys, threading, time
from pathlib import Path

import leftovers

leftovers.PATIENCE_SECONDS = 0.3

SLEEPER = "import time; time.sleep(600)"
ORPHANING = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])"
kept = []

def test_clean():
    subprocess.run([sys.executable, "-c", ""], check=True)
    with open(__file__):
        pass
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()

def test_process():
    kept.append(subprocess.Popen([sys.executable, "-c", SLEEPER, "left-process"]))

def test_zombie():
    kept.append(subprocess.Popen([sys.executable, "-c", ""]))
    os.waitid(os.P_PID, kept[-1].pid, os.WEXITED | os.WNOWAIT)

def test_orphan():
    subprocess.run([sys.executable, "-c", ORPHANING], check=True)

def test_descriptor(tmp_path):
    kept.append(os.open(tmp_path / "left-open", os.O_CREAT | os.O_WRONLY))

def test_shared_file():
    Path("/dev/shm/feedrate-guard-NUMBER").touch()

def test_thread():
    stop = threading.Event()
    kept.append(stop)
    threading.Thread(target=stop.wait, name="left-thread", daemon=True).start()

def test_that_follows():
    kept[-1].set()

def test_what_ends_soon():
    # The guard collects garbage when it has looked in vain: then the thread ends.
    stop = threading.Event()
    gc.callbacks.append(lambda phase, info: stop.set())
    threading.Thread(target=stop.wait).start()

def test_cycle():
    holder = [open(__file__)]
    holder.append(holder)
    sys.stderr.write("")
"""


@pytest.fixture(autouse=True)
def guard_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.fixture
def outcome(pytester: pytest.Pytester) -> Iterator[pytest.RunResult]:
    pytester.makepyfile(LEAVING.replace("NUMBER", str(os.getpid())))
    # A file that is open in a cycle warns when it is collected: not the guard's affair.
    yield pytester.runpytest_subprocess("-p", "leftovers", "-v", "-W", "ignore", timeout=60)
    Path(f"/dev/shm/feedrate-guard-{os.getpid()}").unlink(missing_ok=True)


@NEEDS_PROC
def test_the_guard(outcome: pytest.RunResult) -> None:
    outcome.assert_outcomes(passed=10, errors=6)
    text = outcome.stdout.str()
    failed = set(re.findall(r"^\S+::(\w+) ERROR", text, re.MULTILINE))
    assert failed == {
        "test_process",
        "test_zombie",
        "test_orphan",
        "test_descriptor",
        "test_shared_file",
        "test_thread",
    }
    outcome.stdout.re_match_lines_random(
        [
            r".*::test_process left behind:",
            r"  process \d+ \(\w+\): .*left-process",
            r"  process \d+ \(zombie\): .*",
            r".*::test_orphan left behind:",
            r"  process \d+ \(\w+\): .*time\.sleep\(600\)",
            r"  descriptor \d+: .*left-open",
            r"  /dev/shm/feedrate-guard-\d+",
            r"  thread left-thread",
        ]
    )
    still_there = [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] and "left-process" in process.info["cmdline"]
    ]
    assert still_there == []


@NEEDS_PROC
@pytest.mark.parametrize(
    "appear",
    [
        "os.rename({unseen!r}, {appearing!r})",
        # as a semaphore does, of which a process then has only the first name mapped
        "os.link({unseen!r}, {appearing!r}); os.unlink({unseen!r})",
    ],
)
def test_shared_memory_that_another_program_uses_is_not_left_over(
    pytester: pytest.Pytester, appear: str
) -> None:
    unseen = Path(f"/dev/shm/unseen-{os.getpid()}")
    appearing = Path(f"/dev/shm/feedrate-guard-of-another-{os.getpid()}")
    now = appear.format(unseen=str(unseen), appearing=str(appearing))
    pytester.makepyfile(f"import os\ndef test_x(): {now}")
    try:
        with unseen.open("w"):  # this process is the other program
            run = pytester.runpytest_subprocess("-p", "leftovers", timeout=60)
    finally:
        unseen.unlink(missing_ok=True)
        appearing.unlink()
    run.assert_outcomes(passed=1)


def test_what_multiprocessing_keeps_is_not_left_over(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import multiprocessing as mp
        import pytest

        @pytest.mark.parametrize("method", ["spawn", "forkserver"])
        def test_queue(method):
            context = mp.get_context(method)
            queue = context.Queue()
            process = context.Process(target=print)
            process.start()
            process.join()
            queue.close()
            queue.join_thread()
        """
    )
    result = pytester.runpytest_subprocess("-p", "leftovers", "-W", "error", timeout=60)
    result.assert_outcomes(passed=2)
