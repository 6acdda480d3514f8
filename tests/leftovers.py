"""A guard around every test: what it starts or opens must be gone when it ends.

feedrate starts processes that start processes, and shares memory between them; a test that only
looks at results would not notice what stays. As a pytest plugin, so that it can be tested.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Hashable, Iterator, Mapping, Set
from multiprocessing import resource_tracker
from pathlib import Path

import psutil
import pytest

# How long what is ending may take to end.
PATIENCE_SECONDS = 2.0

# An environment variable that everything a test runs inherits, so that orphans are known by it.
MARK = "FEEDRATE_TEST"

# How the names of files begin that torch, Python and feedrate make in /dev/shm.
SHARED_FILES = ("torch_", "feedrate", "psm_", "sem.", "pymp-")

# matplotlib keeps the fonts open that it has drawn with.
KEPT_OPEN = (".ttf", ".otf", ".ttc")

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def nothing_left_over(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process, a descriptor, a thread or shared memory behind."""
    mark = f"{os.getpid()}-{next(_numbers)}"
    before = {**_descriptors(), **_shared_files(), **_threads()}
    processes = set(psutil.pids())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        yield
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := _new(before, look(mark, processes)):
        if time.monotonic() > deadline:
            for key in left:
                if isinstance(key, psutil.Process):
                    _end(key)  # or it would disturb the tests that follow
            lines = "".join(f"\n  {what}" for what in left.values())
            pytest.fail(f"{request.node.nodeid} left behind:{lines}", pytrace=False)
        gc.collect()  # what only a reference cycle holds, as a caught error does, is not left
        time.sleep(0.02)


def look(mark: str, before: Set[int]) -> Mapping[Hashable, str]:
    """Return what there is now, in words.

    ``mark`` is what `MARK` is in the test's processes; ``before`` are the numbers of all processes
    that were there before it.
    """
    return {**_processes(mark, before), **_descriptors(), **_shared_files(), **_threads()}


def _new(before: Mapping[Hashable, str], now: Mapping[Hashable, str]) -> dict[Hashable, str]:
    left = {key: what for key, what in now.items() if key not in before}
    shared = {key for key in left if isinstance(key, Path)}
    if shared:
        children = psutil.Process().children(recursive=True)
        orphans = (key for key in now if isinstance(key, psutil.Process))
        ours = {os.getpid(), *(process.pid for process in (*children, *orphans))}
        used = _used_by_others(ours)
        for path in shared:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino in used:
                    del left[path]  # other programs share memory too, as another run of these tests
    return left


def _used_by_others(ours: set[int]) -> set[int]:
    """Return inodes of /dev/shm that processes other than ``ours`` have mapped or open.

    Not names: a semaphore has another one when it is mapped, and its own only after it.
    """
    used = set()
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) in ours:
            continue
        with contextlib.suppress(OSError):
            maps = (folder / "maps").read_text("utf-8", "replace")
            used |= {int(inode) for inode in re.findall(r" (\d+) +/dev/shm/", maps)}
        with contextlib.suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if descriptor.readlink().is_relative_to("/dev/shm"):
                        used.add(descriptor.stat().st_ino)
    return used


def _processes(mark: str, before: Set[int]) -> dict[Hashable, str]:
    """Return descendants; on Linux also orphans that the test's processes left."""
    found: dict[Hashable, str] = {}
    staying = {os.getpid(), *_of_multiprocessing("_pid", "_forkserver_pid"), *before}
    # To look closer takes milliseconds, and most of some thousand tests start nothing.
    if staying.issuperset(psutil.pids()):
        return found
    for process in (*psutil.Process().children(recursive=True), *_marked(mark)):
        if process.pid not in staying:
            # One that has ended stays, as a zombie, until someone waits for it.
            with contextlib.suppress(psutil.NoSuchProcess):
                found[process] = f"process {process.pid} ({process.status()}): {_words(process)}"
    return found


def _marked(mark: str) -> Iterator[psutil.Process]:
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield psutil.Process(int(folder.name))


def _words(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        if command := " ".join(process.cmdline()):
            return command[:200]
    with contextlib.suppress(psutil.Error):
        return process.name()
    return "?"


def _descriptors() -> dict[Hashable, str]:
    found: dict[Hashable, str] = {}
    with contextlib.suppress(FileNotFoundError):  # there is none outside Linux
        staying = _of_multiprocessing("_fd", "_forkserver_alive_fd")
        for path in Path("/proc/self/fd").iterdir():
            # The one that lists the folder is closed when its turn comes.
            with contextlib.suppress(FileNotFoundError):
                target = path.readlink()
                if int(path.name) not in staying and target.suffix not in KEPT_OPEN:
                    found["descriptor", path.name, target] = f"descriptor {path.name}: {target}"
    return found


def _shared_files() -> dict[Hashable, str]:
    with contextlib.suppress(OSError):
        return {
            path: str(path)
            for path in Path("/dev/shm").iterdir()
            if path.name.startswith(SHARED_FILES)
        }
    return {}


def _threads() -> dict[Hashable, str]:
    return {thread: f"thread {thread.name}" for thread in threading.enumerate()}


def _of_multiprocessing(tracker_field: str, forkserver_field: str) -> set[int]:
    """Return numbers of what multiprocessing starts once, when needed, and keeps to the end."""
    forkserver = sys.modules.get("multiprocessing.forkserver")
    server = getattr(forkserver, "_forkserver", None)
    kept = (
        getattr(resource_tracker._resource_tracker, tracker_field, None),
        getattr(server, forkserver_field, None),
    )
    return {number for number in kept if number is not None}


def _end(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()
        process.wait(PATIENCE_SECONDS)
