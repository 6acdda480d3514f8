"""An alarm that ends what does not come to its end by itself, and shows where it stood."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from types import FrameType
from typing import IO

from feedrate.host.files import SystemReader
from feedrate.host.processes import find_workers
from feedrate.measure.cpu import worker_cpu_seconds
from feedrate.measure.stacks import CURRENT, DUMP_SIGNAL, Stacks, answer_when_asked, answers

_ANSWER_SECONDS = 0.3
_MOST_ASKED = 8
_ASKING_SECONDS = 1.0
"""How long all of them may take together."""
_BUSY_SECONDS, _BUSY_SHARE = 0.4, 0.1
_OWN = re.compile(rf'^  File "{re.escape(__file__)}".*\n', re.MULTILINE)


class TooLong(BaseException):
    """Nothing came for so long; ``stacks`` is where the processes stood.

    ``busy`` tells that they used the CPUs: what computes may only be slow.
    """

    def __init__(self, seconds: float, stacks: Stacks, *, busy: bool) -> None:
        super().__init__(f"nothing came for {seconds:g} s")
        self.seconds = seconds
        self.stacks = stacks
        self.busy = busy


class Alarm:
    """Raises `TooLong` in the main thread when it was not fed for longer than it was set to.

    Where the platform has no timer it never does. Code that uses SIGALRM itself takes it away.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._file: IO[bytes] | None = None

    def feed(self, seconds: float) -> None:
        """Begin to count anew."""
        self._seconds = seconds
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, seconds)

    @contextlib.contextmanager
    def armed(self, seconds: float) -> Iterator[Alarm]:
        """Feed it, and take it away at the end. Workers that are forked meanwhile can be asked."""
        if sys.platform == "win32":
            yield self
            return
        file = tempfile.TemporaryFile()  # noqa: SIM115, closed below whatever torch raises
        try:
            self._file = file
            if DUMP_SIGNAL is not None:
                faulthandler.register(DUMP_SIGNAL, file)
            before = signal.signal(signal.SIGALRM, self._ring)
            self.feed(seconds)
            try:
                yield self
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
                answer_when_asked()
                self._file = None
        finally:
            while not file.closed:
                with contextlib.suppress(RuntimeError):  # torch's, of a worker that has just ended
                    file.close()

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if self._file is not None:
            raise TooLong(self._seconds, _look(self._file), busy=_is_busy())


def workers() -> tuple[int, ...]:
    """Return the pids of this process's workers."""
    return find_workers(SystemReader(), os.getpid())


def kill_workers() -> None:
    """End all workers at once: those that hang would be waited for."""
    calm_children()
    if sys.platform != "win32":
        for pid in workers():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def killing_workers_after(seconds: float) -> Iterator[None]:
    """End workers that are still there so long after: torch waits five seconds for each of them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: kill_workers())
    signal.setitimer(signal.ITIMER_REAL, max(0.05, seconds), 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def calm_children() -> None:
    """Let workers end without an error in this process: torch's handler raises for each of them."""
    if sys.platform == "win32":
        return
    while signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
        with contextlib.suppress(RuntimeError):  # of a worker that has just ended
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _is_busy() -> bool:
    before = _cpu_seconds()
    time.sleep(_BUSY_SECONDS)
    return _cpu_seconds() - before > _BUSY_SHARE * _BUSY_SECONDS


def _cpu_seconds() -> float:
    return time.process_time() + (worker_cpu_seconds() or 0.0)


def _look(file: IO[bytes]) -> Stacks:
    """Return where this process and its workers stand, without the alarm's own functions."""
    faulthandler.dump_traceback(file, all_threads=True)
    main = _OWN.sub("", _take(file))
    end = time.monotonic() + _ASKING_SECONDS
    told = tuple(_ask(pid, file) if time.monotonic() < end else "" for pid in _asked())
    return Stacks(said="", main=main, workers=told)


def _asked() -> tuple[int, ...]:
    reader = SystemReader()
    return tuple(pid for pid in workers() if answers(reader.read(f"/proc/{pid}/status")))[
        :_MOST_ASKED
    ]


def _ask(pid: int, file: IO[bytes]) -> str:
    if DUMP_SIGNAL is None:
        return ""
    with contextlib.suppress(OSError):
        os.kill(pid, DUMP_SIGNAL)
    end = time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < end:
        time.sleep(0.02)
        if os.fstat(file.fileno()).st_size and CURRENT in _take(file, keep=True):
            time.sleep(0.02)  # it is written frame by frame
            return _take(file)
    return _take(file)


def _take(file: IO[bytes], *, keep: bool = False) -> str:
    """Return what was written to the file, and empty it."""
    descriptor = file.fileno()
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
    if not keep:
        os.lseek(descriptor, 0, os.SEEK_SET)  # shared with the workers, as their descriptor is
        os.ftruncate(descriptor, 0)
    return text
