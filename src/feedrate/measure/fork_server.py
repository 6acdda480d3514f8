"""A process that has imported torch, from which children are forked: as their parent has it.

Importing torch takes as long as a run of a race measures. The children of a factory target all
import it before anything of the user's; so it is done once, in a process that does nothing else,
and each child begins as a copy of that. A script's children begin with an interpreter of their own:
what a script sets before its own import of torch is then read by that.

What happens in there is in `feedrate.measure.forking`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO

from feedrate.errors import FeedrateError

AVAILABLE = sys.platform == "linux"

READY, FORK = b"ready", b"fork"
LONGEST = 64
"""No message is longer; each is a packet of its own."""

_COMMAND = (
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"
    "from feedrate.measure.forking import serve\n"
    "serve()\n"  # returns in each child
    "from feedrate.measure.child import main\n"
    "sys.exit(main())\n"
)
_START_SECONDS = 60.0
"""How long the import of torch may take; beyond it children do that themselves."""
_FORK_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_POLL_SECONDS = 0.2


class CannotForkError(FeedrateError):
    """There is no copy to be had: a child has to begin with an interpreter of its own."""


class ForkServer:
    """Starts the process with its first use, and ends it with `close`.

    It has one child at a time: the next is forked once the one before was waited for.

    Args:
        environment: what the process and so each child has in its environment.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._tried = False

    def prepare(self) -> None:
        """Start it, unless that was tried before; torch is imported when this returns."""
        if self._tried or not AVAILABLE:
            return
        self._tried = True
        try:
            self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _COMMAND],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
        except OSError:  # what is lacking is told by the child that is then started without it
            self.close()
            return
        if _heard(self._orders, _START_SECONDS) != READY:
            self.close()

    def fork(self) -> ForkedProcess:
        """Return a new child.

        Raises:
            CannotForkError: the process is not there, does not fork, or has died.
        """
        if self._orders is None:
            raise CannotForkError("there is no process to fork from")
        (in_r, in_w), (out_r, out_w), (err_r, err_w) = (os.pipe() for _ in range(3))
        try:
            try:
                socket.send_fds(self._orders, [FORK], [in_r, out_w, err_w])
            finally:
                _close(in_r, out_w, err_w)
            pid = int(_heard(self._orders, _FORK_SECONDS) or b"")
        except BaseException as error:  # Ctrl-C too: a child that hears of nobody ends
            _close(in_w, out_r, err_r)
            self.close()
            if not isinstance(error, OSError | ValueError):
                raise
            raise CannotForkError("the process that children are forked from has died") from error
        pipes = os.fdopen(in_w, "wb"), os.fdopen(out_r, "rb"), os.fdopen(err_r, "rb")
        assert self._process is not None, "what answers is that process"
        return ForkedProcess(pid, self._process.pid, self._orders, pipes)

    def close(self) -> None:
        """End it. A child that runs is not ended by this but by its own pipes."""
        orders, self._orders = self._orders, None
        if orders is not None:
            orders.close()
        if self._process is None:
            return
        try:
            self._process.wait(_CLOSE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            self._process.wait()


class ForkedProcess:
    """A forked child, by the names that `subprocess.Popen` has for one of its own."""

    def __init__(
        self,
        pid: int,
        server: int,
        orders: socket.socket,
        pipes: tuple[IO[bytes], IO[bytes], IO[bytes]],
    ) -> None:
        self.pid = pid
        self.originals = (server, pid)
        """What the child's main process is a copy of: this one forks again, for its keeper."""
        self.stdin, self.stdout, self.stderr = pipes
        self.cpu_seconds = 0.0
        """Its own and of all that it waited for, once it has ended: it is no child of this process,
        whose own clocks do not have them."""
        self._orders = orders
        self._status: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit code, negative of a signal; ``None`` while it runs."""
        return self._hear(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while (status := self._hear(min(_POLL_SECONDS, max(0.0, end - time.monotonic())))) is None:
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired("a forked child", timeout or 0.0)
        return status

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _hear(self, seconds: float) -> int | None:
        with self._lock:
            told = None if self._status is not None else _heard(self._orders, seconds)
            if told is not None:
                status, _, cpu = told.partition(b" ")
                # without a word the server itself has died, and left the child to its keeper
                self._status = int(status) if status else -signal.SIGKILL
                self.cpu_seconds = float(cpu or 0.0)
            return self._status


def _heard(orders: socket.socket, seconds: float) -> bytes | None:
    """Return the next message, empty where none will come; ``None`` if none came in time."""
    try:
        ready, _, _ = select.select([orders], [], [], seconds)
        return orders.recv(LONGEST) if ready else None
    except (OSError, ValueError):  # the latter: it was closed
        return b""


def _close(*descriptors: int) -> None:
    for each in descriptors:
        os.close(each)
