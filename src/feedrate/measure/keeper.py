"""The keeper: a small process between the parent and the child that leaves nothing behind.

A parent that is killed cannot clean up, and neither can a child; worker processes that wait on
either would live on. So the process that the parent starts forks before torch is imported. Its
first half stays as the keeper: it holds the parent's pipe and the child's exit status, adopts
whatever the child's death leaves without a parent (it is a child subreaper), and ends all of it.
A thread in the child would do neither, and would be seen by the user's program: Python warns of
forking a process that has threads.

Orders from the parent, one byte on standard input: ``I`` interrupt as Ctrl-C would, ``T`` dump
all stacks and die; the end of the pipe means that the parent is gone, and is taken as ``I``. The
answers to what the child asked, ``G`` and ``S``, are handed on to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

from feedrate.host.files import SystemReader
from feedrate.host.processes import list_descendants
from feedrate.host.shared_files import remove_abandoned
from feedrate.host.socket_folders import remove_abandoned_folders
from feedrate.measure.scratch import remove_scratch
from feedrate.measure.wire import GO, REST, STOP

AVAILABLE = hasattr(os, "fork")

INTERRUPT_SECONDS = 2.0
"""How long an interrupted child may take to end by itself, and its workers with it."""
LEFTOVER_SECONDS = 1.0
"""How long processes may outlive a child that ended by itself."""
TRACKER_SECONDS = 2.0
"""How long multiprocessing's resource tracker may take to unlink what the killed left."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def read_line(descriptor: int) -> bytes:
    """Read up to a line feed, byte by byte past no more than it, so that the pipe stays whole."""
    parts = bytearray()
    while True:
        byte = os.read(descriptor, 1)
        if not byte:
            return b""
        if byte == b"\n":
            return bytes(parts)
        parts += byte


def guard(messages: int) -> int:
    """Fork; return in the child, stay in the keeper until all of it has ended, then exit.

    Returns the descriptor from which the child reads the parent's answers. The keeper writes the
    child's exit status as the last line on ``messages``: ``exit N``, with a negative N for a
    signal.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    answers, answers_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answers_in)
        # Should the keeper itself be killed, the child goes too, and its workers see that.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        return answers
    status = 1
    try:
        os.close(answers)
        status = _Keeper(pid, answers_in).watch()
        os.write(messages, f"exit {status}\n".encode())
    finally:
        os._exit(0 if status == 0 else 1)


class _Keeper:
    """Waits for the child's end or the parent's order, then ends what is left."""

    def __init__(self, child: int, answers: int) -> None:
        self._child = child
        self._answers = answers
        self._started = time.time()
        self._wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)

    def watch(self) -> int:
        """Return the child's exit status once everything below it has ended."""
        sources = [sys.stdin.fileno(), self._wake_r]
        status: int | None = None
        while status is None:
            ready, _, _ = select.select(sources, [], [])
            if self._wake_r in ready:
                os.read(self._wake_r, 512)
            status = self._reap()
            if status is None and sys.stdin.fileno() in ready:
                order = os.read(sys.stdin.fileno(), 1)
                if order in (GO, REST, STOP):
                    self._hand_on(order)
                else:
                    status = self._obey(order)
        self._end_leftovers(LEFTOVER_SECONDS)
        remove_abandoned(self._started)
        remove_abandoned_folders(self._started)
        remove_scratch()
        return status

    def _hand_on(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):  # the child has just ended
            os.write(self._answers, answer)

    def _obey(self, order: bytes) -> int:
        self._signal(self._child, signal.SIGABRT if order == b"T" else signal.SIGINT)
        status = self._await_child(INTERRUPT_SECONDS)
        if status is None:
            for pid in descendants(os.getpid()):
                if not is_tracker(pid):
                    self._signal(pid, signal.SIGKILL)
            status = self._await_child(INTERRUPT_SECONDS)
        return -signal.SIGKILL if status is None else status

    def _await_child(self, seconds: float) -> int | None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if (status := self._reap()) is not None:
                return status
            ready, _, _ = select.select([self._wake_r], [], [], left)
            if ready:
                os.read(self._wake_r, 512)
        return self._reap()

    def _reap(self) -> int | None:
        """Reap all that has ended; return the child's status if it is among them."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if pid == self._child:
                found = os.waitstatus_to_exitcode(status)

    def _end_leftovers(self, patience: float) -> None:
        """Give what is left a moment, then kill it; trackers last, for they clean up."""
        self._await_gone(patience)
        for pid in descendants(os.getpid()):
            if not is_tracker(pid):
                self._signal(pid, signal.SIGKILL)
        self._await_gone(TRACKER_SECONDS)
        for pid in descendants(os.getpid()):
            self._signal(pid, signal.SIGKILL)
        self._await_gone(TRACKER_SECONDS)

    def _await_gone(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._reap()
            if not descendants(os.getpid()):
                return
            ready, _, _ = select.select([self._wake_r], [], [], min(left, 0.05))
            if ready:
                os.read(self._wake_r, 512)

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process that were not waited for yet.

    Zombies too: one whose main thread has ended may have others that still run, and that hold its
    files and sockets open. Once it can be waited for, they have ended.
    """
    return [child for child, _ in list_descendants(SystemReader(), pid)]


def is_tracker(pid: int) -> bool:
    """Tell whether a process is multiprocessing's resource tracker."""
    command = SystemReader().read(f"/proc/{pid}/cmdline")
    return command is not None and "multiprocessing.resource_tracker" in command


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
