"""A probe: work done in a forked copy of the child, so that nothing that it does stays.

What user code fills, opens, breaks or waits for in there ends with it. Platforms without fork have
no probes.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec
import torch

from feedrate.measure.blame import clean
from feedrate.measure.examined import Part

AVAILABLE = hasattr(os, "fork")

_ENOUGH, _FAR = 3, 20.0
"""After so many places, and so many times as long as in one of them, a probe is stuck."""

_decoder: msgspec.json.Decoder[Part] = msgspec.json.Decoder(Part)


class Place:
    """Where a probe stands: a number that its maker can read even if it has died."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 24)
        self.at = -1

    @property
    def at(self) -> int:
        """Return the number."""
        return int(struct.unpack("q", self._memory[:8])[0])

    @at.setter
    def at(self, number: int) -> None:
        self._memory[:24] = struct.pack("qdq", number, time.monotonic(), self.moves + 1)

    @property
    def moves(self) -> int:
        """Return how often it was set, the start included."""
        return int(struct.unpack("q", self._memory[16:24])[0])

    @property
    def since(self) -> float:
        """Return since when it stands there, by `time.monotonic`."""
        return float(struct.unpack("d", self._memory[8:16])[0])


Tell = Callable[[Part], None]
Work = Callable[[Tell, Place], None]


@dataclass(frozen=True, slots=True)
class Told:
    """What a probe told, and how it ended.

    ``at`` is where it stood last, for ``stood`` seconds, after ``passed`` places that it left.
    ``text`` is the traceback of one that raised, or the signal that it died of.
    """

    parts: tuple[Part, ...]
    end: Literal["done", "raised", "died", "hung"]
    at: int = -1
    text: str = ""
    headline: str = ""
    seconds: float = 0.0
    stood: float = 0.0
    passed: int = 0

    @property
    def is_stuck(self) -> bool:
        """Whether it stood in one place far longer than in those before."""
        if self.end != "hung" or self.passed < _ENOUGH:
            return False
        return self.stood > _FAR * (self.seconds - self.stood) / self.passed


def run_probe(work: Work, seconds: float, stall: float = math.inf) -> Told:
    """Do the work in a fork of this process for so long at most, and return what it told.

    It is ended as well where it stands in one place for ``stall`` seconds, which is hanging too.
    """
    place = Place()
    reader, writer = os.pipe()
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's of forking a process with threads
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        _work_and_end(work, writer, place)
    os.close(writer)
    data, ended = _read(reader, started + seconds, place, stall)
    stood = time.monotonic() - place.since
    os.close(reader)
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        _, status = os.waitpid(pid, 0)
    took = time.monotonic() - started
    parts: list[Part] = []
    raised: list[str] = []
    for line in data.splitlines():
        with contextlib.suppress(msgspec.MsgspecError):
            if line.startswith(b'["raised"'):
                raised = msgspec.json.decode(line, type=list[str])
            else:
                parts.append(_decoder.decode(line))
    if not ended:
        passed = max(0, place.moves - 2)
        return Told(tuple(parts), "hung", place.at, seconds=took, stood=stood, passed=passed)
    if raised:
        return Told(tuple(parts), "raised", place.at, raised[2], raised[1], took)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Told(tuple(parts), "died", place.at, name, name, took)
    if os.WEXITSTATUS(status):
        text = f"exit code {os.WEXITSTATUS(status)}"
        return Told(tuple(parts), "died", place.at, text, text, took)
    return Told(tuple(parts), "done", place.at, seconds=took)


def _work_and_end(work: Work, writer: int, place: Place) -> None:
    """Work, then leave without any of the exit functions that the user's process has."""
    code = 0
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        torch.set_num_threads(1)  # as in a worker; the pool's threads are not forked along

        def tell(part: Part) -> None:
            _write(writer, msgspec.json.encode(part) + b"\n")

        try:
            work(tell, place)
        except BaseException as error:
            whole = clean("".join(traceback.format_exception(error)))
            words = clean("".join(traceback.format_exception_only(error)).strip())
            _write(writer, msgspec.json.encode(["raised", words, whole]) + b"\n")
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read(descriptor: int, deadline: float, place: Place, stall: float) -> tuple[bytes, bool]:
    """Read to the end; the second is false where that did not come in time."""
    data = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if time.monotonic() - place.since > stall:
            break
        ready, _, _ = select.select([descriptor], [], [], min(left, stall / 4))
        if ready:
            piece = os.read(descriptor, 65536)
            if not piece:
                return bytes(data), True
            data += piece
    return bytes(data), False
