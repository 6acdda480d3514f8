"""A log of any size as text of a bounded size: beginning, end, and what tells in between."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from feedrate.errors import FormatError

CHUNK = 1 << 20
WHOLE = 8 << 20
"""Up to this size a log is kept as it is."""
BEGINNING = 2 << 20
END = 4 << 20
MIDDLE = 2 << 20
_BEFORE, _AFTER = 4 << 10, 12 << 10
"""What is kept around a telling word: a traceback reaches further down than up."""
_OF_A_KIND = 3
_MOST_KINDS = 20_000
_LEFT_OUT = b"\n[feedrate: lines left out here]\n"

TELLING = (
    "Traceback",
    "Error",
    "error",
    "Exception",
    "xception",
    "signal",
    "Killed",
    "killed",
    "kill",
    "SIG",
    "exit",
    "timed out",
    "imeout",
    "Too many",
    "No space",
    "emory",
    "OOM",
    "leaked",
    "resource_tracker",
    "fork",
    "core dumped",
    "fault",
    "terminate called",
    "Thread ",
    "Interrupt",
    "annot",
    "an't",
    "nable to",
    "Warning",
    "warn",
    "worker",
    "ancdata",
    "bootstrapping",
    "libgomp",
    "Corrupt",
    "Premature",
    "corrupt",
    "Bad",
    "free()",
    "ordinal",
    "NVIDIA",
    "shm",
    "pin_memory",
    "MDB_",
    "Watchdog",
    "Length of",
    "reraise",
    "unavailable",
    "daemonic",
    "expects",
    "must contain",
    "empty()",
    "moov",
    "resiz",
    "unlink",
    "option",
    "element",
    "found",
    "malformed",
    "freeze_support",
    "Stale",
    "truncated",
    "shared",
    "got ",
    "_feed",
)
"""Words of which every line that tells of an error has at least one."""

_RARE = (
    "Traceback",
    "Error",
    "Killed",
    "killed by",
    "unexpectedly",
    "terminate called",
    "core dumped",
    "exitcode",
    "oom",
    "OOM",
    "No space left",
    "Too many open",
    "nable to",
    "annot ",
    "Warning",
    "resource_tracker",
    "Watchdog",
    "ancdata",
    "most recent call first",
    "(idle)",
)
"""Words that healthy logs hardly have, and nearly all that tell of errors: for the middle of a huge
one, where only what is near them is kept."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """``text`` is all of a log, or what is left of it; ``bytes`` the size of the whole."""

    text: str
    bytes: int
    whole: bool = True
    interrupted: bool = False


def read_excerpt(stream: BinaryIO, name: str) -> Excerpt:
    """Read a log to its end, holding a bounded part of it; Ctrl-C ends the reading.

    ``name`` is what errors call it.

    Raises:
        FormatError: it is no text, or cannot be read.
    """
    keeper = _Keeper()
    interrupted = False
    try:
        for chunk in _chunks(stream, name):
            keeper.take(chunk, name)
    except KeyboardInterrupt:
        interrupted = True
    text = keeper.data().decode("utf-8", "replace").removeprefix("\ufeff")
    return Excerpt(text, keeper.bytes, keeper.whole, interrupted)


def _chunks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    # what a pipe holds now, without waiting for a whole chunk: a Ctrl-C would lose it
    read = getattr(stream, "read1", stream.read)
    while True:
        try:
            chunk = read(CHUNK)
        except OSError as error:
            raise FormatError(f"{name} cannot be read: {error.strerror}") from error
        if not chunk:
            return
        yield chunk


class _Keeper:
    """Takes chunks; holds them all until they are too many, then what `read_excerpt` promises."""

    def __init__(self) -> None:
        self.bytes = 0
        self.whole = True
        self._wide: codecs.IncrementalDecoder | None = None
        self._start = bytearray()
        self._middle: list[bytes] = []
        self._middle_bytes = 0
        self._kinds: dict[bytes, int] = {}
        self._end: deque[bytes] = deque()
        self._end_bytes = 0

    def take(self, chunk: bytes, name: str) -> None:
        """Take the next chunk.

        Raises:
            FormatError: what has come until now is no text.
        """
        first = self.bytes == 0
        self.bytes += len(chunk)
        if first and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            # so does PowerShell's > write
            self._wide = codecs.getincrementaldecoder("utf-16")("replace")
        if self._wide is not None:
            chunk = self._wide.decode(chunk).encode("utf-8", "replace")
        if _is_binary(chunk):
            raise FormatError(
                f"{name} is no text; name a log or a traceback (a packed one: zcat FILE | "
                "feedrate explain -)"
            )
        self._end.append(chunk)
        self._end_bytes += len(chunk)
        if self.bytes <= WHOLE:
            return
        self.whole = False
        while self._end and self._end_bytes - len(self._end[0]) >= END:
            oldest = self._end.popleft()
            self._end_bytes -= len(oldest)
            self._let_go(oldest)

    def data(self) -> bytes:
        """Return what was kept, gaps marked."""
        end = b"".join(self._end)
        if self.whole:
            return end
        return _LEFT_OUT.join([bytes(self._start), *self._middle, end])

    def _let_go(self, chunk: bytes) -> None:
        room = BEGINNING - len(self._start)
        if room > 0:
            self._start += chunk[:room]
            chunk = chunk[room:]
        if chunk and self._middle_bytes < MIDDLE:
            self._keep_telling(chunk)

    def _keep_telling(self, chunk: bytes) -> None:
        kept = 0
        for place in _telling_places(chunk):
            if place < kept or self._middle_bytes >= MIDDLE:
                continue
            begin = chunk.rfind(b"\n", 0, place) + 1
            end = chunk.find(b"\n", place)
            line = chunk[begin : end if end >= 0 else len(chunk)][:500]
            kind = re.sub(rb"\d+", b"#", line)
            seen = self._kinds.get(kind, 0)
            if seen >= _OF_A_KIND or (not seen and len(self._kinds) >= _MOST_KINDS):
                continue
            self._kinds[kind] = seen + 1
            piece = chunk[max(kept, begin - _BEFORE) : begin + _AFTER]
            kept = begin + _AFTER
            self._middle.append(piece)
            self._middle_bytes += len(piece)


def _telling_places(chunk: bytes) -> list[int]:
    places = []
    for word in _RARE:
        mark = word.encode()
        place = chunk.find(mark)
        while place >= 0:
            places.append(place)
            place = chunk.find(mark, place + len(mark))
    return sorted(places)


def _is_binary(chunk: bytes) -> bool:
    sample = chunk[: 64 << 10]
    odd = len(sample.translate(None, bytes(range(32, 256)) + b"\t\n\r\f\b\x1b\x07\x00"))
    # torch's own message of a bus error ends with a NUL; an archive has them everywhere
    return sample.count(0) > 8 + len(sample) // 1000 or odd > 8 + len(sample) // 200
