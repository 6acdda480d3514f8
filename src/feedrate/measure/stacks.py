"""Where the processes of a run stand: stacks that Python's faulthandler prints when it is asked.

The main process prints its stacks when it is ended by SIGABRT. A worker that was forked from it has
inherited a handler for `DUMP_SIGNAL`, and prints its own without being disturbed; one that was
spawned has none, and is not asked. A printed stack is one look: where the process was at that
moment.
"""

from __future__ import annotations

import faulthandler
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from feedrate.measure.blame import Frame, is_own, one_line

DUMP_SIGNAL: int | None = signal.SIGRTMAX - 5 if sys.platform == "linux" else None
"""A real-time signal: programs use the named ones themselves."""

CURRENT = "Current thread"
"""How faulthandler begins the stack of the thread that took the signal: once in each answer."""

_THREAD = re.compile(rf"(?:{CURRENT}|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.+)$')
_FETCH = re.compile(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]fetch\.py$")
_WAITING = ("_try_get_data", "_get_data")
"""Functions of torch's iterator in which the main process waits for its workers."""
_WORKER_LOOP = "_worker_loop"

Stack = tuple[Frame, ...]
"""Frames from the innermost outwards; their source is not at hand."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """What was printed when a run was given up.

    ``said`` is what the run had printed before; ``workers`` the answer of each worker, "" where
    one gave none.
    """

    said: str
    main: str
    workers: tuple[str, ...] = ()

    def whole(self) -> str:
        """Return all of it, each answer below the name of its process."""
        parts = [self.said.rstrip()] if self.said.strip() else []
        total = len(self.workers)
        for number, text in enumerate(self.workers, 1):
            shown = text.strip() or "(gave no stack)"
            parts.append(f"Worker {number} of {total}:\n{shown}")
        parts.append(f"Main process:\n{self.main.strip() or '(gave no stack)'}")
        return "\n\n".join(parts) + "\n"


def answer_when_asked() -> None:
    """Make this process, and those forked from it, print their stacks at `DUMP_SIGNAL`."""
    faulthandler.enable()
    if DUMP_SIGNAL is not None and sys.platform != "win32":
        faulthandler.register(DUMP_SIGNAL)


def answers(status: str | None) -> bool:
    """Tell from a ``/proc/PID/status`` text whether the process has a handler for the signal.

    The signal would end one that has none.
    """
    found = re.search(r"^SigCgt:\s*([0-9a-fA-F]+)$", status or "", re.MULTILINE)
    return DUMP_SIGNAL is not None and bool(found and int(found[1], 16) >> (DUMP_SIGNAL - 1) & 1)


def read_stack(text: str) -> Stack:
    """Return the stack of the thread that took the signal.

    Nothing where the text holds none, or several: then it is not known whose they are.
    """
    if text.count(CURRENT) != 1:
        return ()
    frames: list[Frame] = []
    inside = False
    for line in text.splitlines():
        if _THREAD.search(line):
            inside = CURRENT in line
        elif inside and (found := _FRAME.match(line)):
            frames.append(Frame(found[1], int(found[2]), found[3], ""))
    return tuple(frames)


def of_a_fetch(stack: Stack) -> Stack:
    """Return the frames of a worker's work on a batch, or of its setting up; none if it is idle."""
    names = [frame.name for frame in stack]
    inner = stack[: names.index(_WORKER_LOOP)] if _WORKER_LOOP in names else stack
    works = any(_FETCH.search(frame.file) or is_own(frame) for frame in inner)
    return inner if works else ()


def waits_for_workers(stack: Stack) -> bool:
    """Tell whether the main process was waiting for a batch from its workers."""
    waiting = [place for place, frame in enumerate(stack) if frame.name in _WAITING]
    return bool(waiting) and not any(is_own(frame) for frame in stack[: waiting[0]])


def place(stack: Stack) -> str:
    """Return the user's own innermost function, else the innermost, as ``name (file.py, line 3)``.

    The stack has at least one frame.
    """
    in_files = (frame for frame in stack if not frame.file.startswith("<"))
    frame = next(filter(is_own, stack), next(in_files, stack[0]))
    short = re.split(r"[/\\]", frame.file)[-1]
    return one_line(f"{frame.name} ({short}, line {frame.line})")


def standing(stacks: Stacks) -> str:
    """Return in words where the main process stood, and its workers if it waited for them."""
    main = read_stack(stacks.main)
    if not main:
        return "the dataset, a worker or the step is stuck"
    if not waits_for_workers(main):
        return f"the main process stood in {place(main)}"
    answered = [stack for stack in map(read_stack, stacks.workers) if stack]
    if not answered:
        return "the main process waited for a batch, and where its workers stood cannot be seen"
    at_work = [stack for stack in map(of_a_fetch, answered) if stack]
    if not at_work:
        return "the main process waited for a batch, and no worker was at work on one"
    return f"{_at_work(at_work)} while the main process waited for a batch"


def _at_work(stacks: Sequence[Stack]) -> str:
    first = place(stacks[0])
    if len(stacks) == 1:
        return f"a worker stood in {first}"
    same = all(place(stack) == first for stack in stacks)
    return f"{len(stacks)} workers stood in {first}" + ("" if same else " and elsewhere")
