"""The child's process seen from outside: its pipes, its keeper's orders, and its end."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import IO

import msgspec

from feedrate.measure import wire
from feedrate.measure.fork_server import CannotForkError, ForkedProcess, ForkServer

CHILD_MARK = "FEEDRATE_CHILD"
"""Set in a child's environment, so that a target that measures itself can be told from a user."""
END_SECONDS = 4.5
"""How long a child may take to end once it was told to; its keeper ends it before that."""

_COMMAND = (
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"  # a script does not see the current folder
    "from feedrate.measure.child import main\n"
    "sys.exit(main())\n"
)
_JOIN_SECONDS = 2.0


class ChildProcess:
    """The process and its three pipes; leaving the context ends whatever is left of it.

    Args:
        spec: what it is told to measure.
        forks: forks it, where it can; without one it begins with an interpreter of its own.
    """

    def __init__(self, spec: wire.ChildSpec, forks: ForkServer | None = None) -> None:
        self._process = _forked(forks) or _begun()
        self._items: queue.SimpleQueue[wire.Message | bytes | int] = queue.SimpleQueue()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read_messages, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_output, args=(self._process.stderr,), daemon=True),
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            raise
        self.order(msgspec.json.encode(spec) + b"\n")

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        stdin = self._process.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            self._process.wait()
        self._kill_session()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def cpu_seconds_apart(self) -> float:
        """What it took of the CPUs and the operating system does not count as this process's."""
        return self._process.cpu_seconds if isinstance(self._process, ForkedProcess) else 0.0

    @property
    def originals(self) -> tuple[int, ...]:
        """The processes that it is a copy of, its keeper among them; empty if it is none."""
        return self._process.originals if isinstance(self._process, ForkedProcess) else ()

    def order(self, data: bytes) -> None:
        """Write to the child's keeper; one that has ended needs no order."""
        stdin = self._process.stdin
        if stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):
            stdin.write(data)
            stdin.flush()

    def read(self, seconds: float) -> wire.Message | bytes | int | None:
        """Return the next message, piece of output or exit code; ``None`` if none came in time."""
        try:
            return self._items.get(timeout=seconds) if seconds else self._items.get_nowait()
        except queue.Empty:
            if self._process.poll() is not None:
                self._kill_session()  # ends what holds the pipes open after its keeper is gone
            return None

    def _read_messages(self, pipe: IO[bytes]) -> None:
        status: int | None = None
        for line in pipe:
            if line.startswith(b"exit "):
                status = int(line[5:])
                break  # what holds the pipe open after this is no part of the run
            with contextlib.suppress(msgspec.MsgspecError):
                self._items.put(wire.decode(line))
        if status is None:  # the keeper itself was killed, or the platform has none
            status = self._process.wait()
            self._kill_session()
        self._items.put(status)

    def _read_output(self, pipe: IO[bytes]) -> None:
        while data := os.read(pipe.fileno(), 65536):
            self._items.put(data)

    def _kill_session(self) -> None:
        """Kill what is left of the child's session, should its keeper not have done so."""
        if sys.platform == "win32":
            return
        import psutil

        for pid in psutil.pids():
            with contextlib.suppress(OSError):
                if pid != self._process.pid and os.getsid(pid) == self._process.pid:
                    os.kill(pid, signal.SIGKILL)


def child_environment() -> dict[str, str]:
    """Return what a child has in its environment: what this process has, and the mark."""
    return os.environ | {CHILD_MARK: "1"}


def _begun() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
        start_new_session=True,
    )


def _forked(forks: ForkServer | None) -> ForkedProcess | None:
    if forks is None:
        return None
    try:
        return forks.fork()
    except CannotForkError:
        return None
