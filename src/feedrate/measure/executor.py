"""The executor: runs one child and returns what came of it.

A protocol, so that planning, stopping and reporting are tested without processes or clocks.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Protocol

import msgspec

from feedrate.measure import wire
from feedrate.measure.failure import describe_end, describe_hang, describe_refusal, with_memory_kill
from feedrate.measure.observer import Observer
from feedrate.records import (
    Choice,
    DevicePeaks,
    Epoch,
    LoaderFacts,
    MemorySnapshot,
    Peaks,
    RunError,
    Window,
)

CHILD_MARK = "FEEDRATE_CHILD"
"""Set in a child's environment, so that a target that measures itself can be told from a user."""

_COMMAND = (
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"  # a script does not see the current folder
    "from feedrate.measure.child import main\n"
    "sys.exit(main())\n"
)
_POLL_SECONDS = 0.2
_END_SECONDS = 4.5
_JOIN_SECONDS = 2.0
_LAST_SECONDS = 10.0
"""How long a child that has said its last word may take to end: torch gives each worker five
seconds. What runs longer is the user's own thread or exit function, and no part of the run."""
_KEPT_OUTPUT = 64 * 1024

_WORKER_ENDED = ("worker_died", "killed", "out_of_memory", "shared_memory")

OnMessage = Callable[[wire.Message], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one child said, and what was seen of it from outside."""

    seconds: float
    ready: wire.Ready | None = None
    facts: LoaderFacts | None = None
    epochs: tuple[Epoch, ...] = ()
    windows: tuple[Window, ...] = ()
    choices: tuple[Choice, ...] = ()
    used: wire.Used | None = None
    device: DevicePeaks | None = None
    error: RunError | None = None
    snapshots: tuple[MemorySnapshot, ...] = ()
    peaks: Peaks | None = None
    other_cpu_seconds: float | None = None


class Executor(Protocol):
    """Runs children, one at a time."""

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        """Run one child to its end.

        Args:
            spec: what it is to measure.
            timeout: seconds without any batch after which it is taken to hang.
            on_message: called with each of its messages.

        Returns:
            What came of it. A failure is in ``error``, as is an interrupt by the user
            (kind "interrupted"): nothing is raised, so that what was measured is kept.
        """


@dataclass(slots=True)
class _Heard:
    """What has arrived so far; changed as messages come."""

    ready: wire.Ready | None = None
    facts: LoaderFacts | None = None
    epochs: list[Epoch] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    used: wire.Used | None = None
    device: DevicePeaks | None = None
    error: RunError | None = None
    finished: bool = False
    batches: int = 0
    exit_code: int | None = None
    output: bytearray = field(default_factory=bytearray)

    def take(self, message: wire.Message) -> None:
        if isinstance(message, wire.Ready):
            self.ready, self.facts = message, message.facts
        elif isinstance(message, wire.Progress):
            self.batches = message.batches
        elif isinstance(message, wire.EpochDone):
            self.epochs.append(message.epoch)
            self.facts = message.facts
        elif isinstance(message, wire.WindowDone):
            self.windows.append(message.window)
        elif isinstance(message, wire.Chosen):
            self.choices.append(message.choice)
        elif isinstance(message, wire.Used):
            self.used = message
            measured = (use for use in message.loaders if use.number == message.training_loader)
            self.facts = next((use.facts for use in measured), self.facts)
        elif isinstance(message, wire.Failed):
            self.error = message.error
        elif isinstance(message, wire.Finished):
            self.device, self.finished = message.device, True

    def is_all(self) -> bool:
        """Tell whether nothing more of the run can come."""
        return self.finished or self.error is not None

    def keep_output(self, data: bytes) -> None:
        self.output += data
        del self.output[:-_KEPT_OUTPUT]

    def text(self) -> str:
        return self.output.decode("utf-8", "replace")


class SubprocessExecutor:
    """Runs each child in a process of its own, with a keeper that ends all of its tree."""

    def __init__(self, observer: Callable[[], Observer] = Observer) -> None:
        self._observer = observer

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        """Run one child to its end; see `Executor`."""
        heard = _Heard()
        observer = self._observer()
        started = time.monotonic()
        try:
            process = _Child(spec)
        except (OSError, RuntimeError) as refused:  # the latter: no thread can be started
            observer.close()
            return Outcome(seconds=time.monotonic() - started, error=describe_refusal(refused))
        with process as child:
            try:
                self._listen(child, heard, observer, on_message, timeout)
            except KeyboardInterrupt:
                heard.error = RunError(kind="interrupted", sentence="interrupted by Ctrl-C")
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C only hurries it
                self._await_end(child, heard)
        observer.close()
        error = heard.error
        if error is None and not heard.finished:
            error = describe_end(heard.exit_code or 0, heard.text())
        if error is not None:
            error = with_memory_kill(error, observer.memory_kills())
            if not error.traceback:
                error = msgspec.structs.replace(error, traceback=heard.text())
            elif error.kind in _WORKER_ENDED and heard.text().strip():
                # what the worker itself said last is in the output, not in the traceback
                whole = f"{error.traceback.rstrip()}\n\nOutput:\n{heard.text()}"
                error = msgspec.structs.replace(error, traceback=whole)
        return Outcome(
            seconds=time.monotonic() - started,
            ready=heard.ready,
            facts=heard.facts,
            epochs=tuple(heard.epochs),
            windows=tuple(heard.windows),
            choices=tuple(heard.choices),
            used=heard.used,
            device=heard.device,
            error=error,
            snapshots=observer.snapshots(),
            peaks=observer.peaks(),
            other_cpu_seconds=observer.other_cpu_seconds(),
        )

    @staticmethod
    def _listen(
        child: _Child,
        heard: _Heard,
        observer: Observer,
        on_message: OnMessage,
        timeout: float,
    ) -> None:
        """Take messages until the child has ended, hangs, or does not end after its last one."""
        last = time.monotonic()
        while heard.exit_code is None:
            item = child.read(_POLL_SECONDS)
            observer.poll()
            if isinstance(item, bytes):
                heard.keep_output(item)
            elif isinstance(item, int):
                heard.exit_code = item
            elif item is not None:
                last = time.monotonic()
                heard.take(item)
                if isinstance(item, wire.Started):
                    observer.attach(item.pid)
                elif isinstance(item, wire.Progress):
                    observer.batch_seen()
                on_message(item)
            silent = time.monotonic() - last  # what the user's code prints is no sign of progress
            if heard.is_all():
                if silent > _LAST_SECONDS:
                    return
            elif silent > timeout and heard.exit_code is None:
                child.order(b"T")
                _drain(child, heard)
                heard.error = describe_hang(timeout, heard.batches, heard.text())
                return

    @staticmethod
    def _await_end(child: _Child, heard: _Heard) -> None:
        if heard.exit_code is None:
            child.order(b"I")
            _drain(child, heard)
        else:
            while isinstance(item := child.read(0.0), bytes):
                heard.keep_output(item)


def _drain(child: _Child, heard: _Heard) -> None:
    """Read on until the child has ended; its keeper sees to it that it does."""
    end = time.monotonic() + _END_SECONDS
    while heard.exit_code is None and time.monotonic() < end:
        item = child.read(_POLL_SECONDS)
        if isinstance(item, bytes):
            heard.keep_output(item)
        elif isinstance(item, int):
            heard.exit_code = item
        elif item is not None:
            heard.take(item)


class _Child:
    """The process and its three pipes; leaving the context ends whatever is left of it."""

    def __init__(self, spec: wire.ChildSpec) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {CHILD_MARK: "1"},
            start_new_session=True,
        )
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
            self._process.communicate()
            raise
        self.order(msgspec.json.encode(spec) + b"\n")

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        stdin = self._process.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            self._process.wait()
        self._kill_session()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

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
