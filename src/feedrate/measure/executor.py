"""The executor: runs one child and returns what came of it.

A protocol, so that planning, stopping and reporting are tested without processes or clocks.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from feedrate.host.files import SystemReader
from feedrate.host.processes import find_workers
from feedrate.measure import wire
from feedrate.measure.child_process import END_SECONDS, ChildProcess
from feedrate.measure.failure import describe_end, describe_refusal, with_memory_kill
from feedrate.measure.fork_server import ForkServer
from feedrate.measure.hang import Patience, describe_hang, describe_late
from feedrate.measure.heard import Heard
from feedrate.measure.observer import Observer
from feedrate.measure.stacks import CURRENT, DUMP_SIGNAL, Stacks, answers
from feedrate.memory_records import MemorySnapshot, MemoryWatch
from feedrate.records import (
    Choice,
    DevicePeaks,
    Epoch,
    LoaderFacts,
    Peaks,
    RunError,
    Window,
)

_POLL_SECONDS = 0.2
_LAST_SECONDS = 10.0
"""How long a child that has said its last word may take to end: torch gives each worker five
seconds. What runs longer is the user's own thread or exit function, and no part of the run."""
_ANSWER_SECONDS = 1.0
"""How long a worker may take to print its stacks."""
_ASKING_SECONDS = 5.0
"""How long all of them may take together."""
_HASTE_SECONDS = 0.5
"""And where the child's time is over."""
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
    watch: MemoryWatch | None = None


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


class SubprocessExecutor:
    """Runs each child in a process of its own, with a keeper that ends all of its tree.

    ``within`` is how many seconds a child may take in all, whatever it says meanwhile; ``None``
    where only silence counts. ``forks`` forks the children that run no script.
    """

    def __init__(
        self,
        observer: Callable[[], Observer] = Observer,
        *,
        within: float | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self._observer = observer
        self._within = within
        self._forks = forks

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        """Run one child to its end; see `Executor`."""
        heard = Heard()
        started = time.monotonic()
        forks = self._forks if spec.script is None else None
        if forks is not None:
            forks.prepare()  # before the observer looks: its CPU time is no other program's
        observer = self._observer()
        try:
            process = ChildProcess(spec, forks)
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
        observer.close(child.cpu_seconds_apart)
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
            watch=observer.watch(heard.used, heard.facts),
        )

    def _listen(
        self,
        child: ChildProcess,
        heard: Heard,
        observer: Observer,
        on_message: OnMessage,
        timeout: float,
    ) -> None:
        """Take messages until the child has ended, hangs, or does not end after its last one."""
        patience = Patience(timeout, time.monotonic(), within=self._within)
        while heard.exit_code is None:
            item = child.read(_POLL_SECONDS)
            observer.poll()
            heard.take_any(item)
            now = time.monotonic()
            if isinstance(item, int):
                return
            if isinstance(item, bytes):
                patience.printed(bytes(heard.output))
            elif item is not None:
                patience.told(item, now)
                _observe(item, observer, child)
                on_message(item)
            if heard.is_all():
                if patience.silence(now) > _LAST_SECONDS or patience.is_late(now):
                    return
            elif lost := patience.lost_for_good(now):
                heard.error = lost
                return
            elif patience.is_late(now):
                stacks = _last_look(child, heard, _HASTE_SECONDS)
                heard.error = describe_late(patience.lasted(now), stacks)
                return
            elif patience.silence(now) > timeout:
                heard.error = describe_hang(timeout, heard.batches, _last_look(child, heard))
                return

    @staticmethod
    def _await_end(child: ChildProcess, heard: Heard) -> None:
        if heard.exit_code is None:
            child.order(b"I")
            _drain(child, heard)
        else:
            while isinstance(item := child.read(0.0), bytes):
                heard.take_any(item)


def _observe(message: wire.Message, observer: Observer, child: ChildProcess) -> None:
    if isinstance(message, wire.Started):
        observer.attach(message.pid, child.originals)
    elif isinstance(message, wire.Progress):
        observer.batch_seen()
    elif isinstance(message, wire.EpochDone | wire.Used):
        observer.ending()
        observer.poll()
    elif isinstance(message, wire.Mark):
        observer.marked(message, child.order)


def _drain(child: ChildProcess, heard: Heard) -> None:
    """Read on until the child has ended; its keeper sees to it that it does."""
    end = time.monotonic() + END_SECONDS
    while heard.exit_code is None and time.monotonic() < end:
        heard.take_any(child.read(_POLL_SECONDS))


def _last_look(child: ChildProcess, heard: Heard, seconds: float = _ASKING_SECONDS) -> Stacks:
    """Ask the workers for their stacks one after another, and end the main process with its own."""
    said = heard.take_text()
    reader = SystemReader()
    workers = find_workers(reader, heard.pid) if heard.pid is not None else ()
    given: list[str] = []
    end = time.monotonic() + seconds
    for pid in workers:
        asked = time.monotonic() < end and answers(reader.read(f"/proc/{pid}/status"))
        given.append(_answer(child, heard, pid, min(seconds, _ANSWER_SECONDS)) if asked else "")
    child.order(b"T")
    _drain(child, heard)
    return Stacks(said=said, main=heard.take_text(), workers=tuple(given))


def _answer(child: ChildProcess, heard: Heard, pid: int, seconds: float) -> str:
    """Return what was printed when a worker was asked for its stacks."""
    assert DUMP_SIGNAL is not None, "nobody answers where there is no such signal"
    with contextlib.suppress(OSError):
        os.kill(pid, DUMP_SIGNAL)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        item = child.read(min(left, _POLL_SECONDS))
        heard.take_any(item)
        if item is None and CURRENT.encode() in heard.output:
            break
    return heard.take_text()
