"""Whose code raised an error: its own words, the user's line, and the part of the loop it is in.

Read from an exception, or, where it was raised in a worker, from the traceback that torch brings
over as text. Nothing here fails, whatever the text is: it explains failures.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

WORKER = re.compile(r"Caught (\w+) in (DataLoader worker process \d+|pin memory thread)")
"""How torch begins the text of an error that it brings over."""

_JOINTS = re.compile(
    r"\n(The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n"
)
_FRAME = re.compile(r'\s*File "(.+)", line (\d+)(?:, in (.+))?$')
_DEEPEST = 50
_TYPE = re.compile(r"(?:[\w.<>]+\.)?(\w+)")
UNREAD = "an error"
"""The kind of an error whose own words are not there, or are none."""
HEADER = "Traceback (most recent call last):\n"
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python3|feedrate[/\\](?:measure|loader)[/\\]"
    r"|^<(?!ipython|stdin)"  # code that a library made: a dataclass's __init__, say
)
_PYTHON = str(Path(traceback.__file__).parent)
_IN_LOOP = re.compile(r"feedrate[/\\]measure[/\\]loop\.py$")
_IN_FETCH = re.compile(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]fetch\.py$")
_CALLS_THE_USER = re.compile(r"self\.dataset\[|__getitems__\(|collate_fn\(")
_IN_DEVICE = re.compile(r"feedrate[/\\]measure[/\\]device\.py$")
_IN_PINNING = re.compile(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]pin_memory\.py$")
_IN_DATA = re.compile(r"torch[/\\]utils[/\\]data[/\\]")
_IN_STARTING = re.compile(r"multiprocessing[/\\](process|context|popen_\w+|reduction)\.py$")


class Frame(NamedTuple):
    """One line of a traceback; ``code`` is the line itself, "" where its source is not at hand."""

    file: str
    line: int
    name: str
    code: str


@dataclass(frozen=True, slots=True)
class Raised:
    """One error: its type's name, its message, its frames from the outermost inwards.

    ``cause`` is the error that it was raised ``from``, or, in the user's own code, the one that was
    being handled. In libraries that says nothing: they try one thing after another.
    """

    kind: str
    message: str
    frames: tuple[Frame, ...] = ()
    cause: Raised | None = None
    in_worker: bool = False

    def headline(self, limit: int = 200) -> str:
        """Return the type and the first line of the message that says something."""
        lines = (one_line(line).rstrip(".") for line in self.message.splitlines())
        first = next(filter(None, lines), "")
        text = f"{self.kind}: {first}" if first else self.kind
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def root(self) -> Raised:
        """Return the error that came before all others."""
        error = self
        while error.cause is not None:
            error = error.cause
        return error

    def messages(self) -> str:
        """Return all messages along the causes, one below the other."""
        return self.message + ("" if self.cause is None else "\n" + self.cause.messages())


def read(error: BaseException) -> Raised:
    """Return what was raised; of an error from a worker, what was raised there."""
    text = text_of(error)
    if WORKER.search(text) and (found := read_printed(text)) is not None:
        return found
    return _read_exception(error, set())


def text_of(error: BaseException) -> str:
    """Return an exception's message as text that can be written as UTF-8."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return clean(text)


def clean(text: str) -> str:
    """Return the text with what UTF-8 cannot hold spelled out: undecodable file names, mostly."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """Return the text with a space for every line break and whatever else cannot be printed."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def _read_exception(error: BaseException, seen: set[int]) -> Raised:
    seen.add(id(error))
    frames = [
        Frame(clean(frame.filename), frame.lineno or 0, frame.name, frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    cause = error.__cause__
    if cause is None and not error.__suppress_context__ and _ends_in_own_code(frames):
        cause = error.__context__
    ends = cause is None or id(cause) in seen or len(seen) >= _DEEPEST
    loops = [place for place, frame in enumerate(frames) if _IN_LOOP.search(frame.file)]
    return Raised(
        kind=type(error).__name__,
        message=text_of(error),
        frames=tuple(frames[loops[-1] if loops else 0 :]),
        cause=None if cause is None or ends else _read_exception(cause, seen),
    )


def read_printed(text: str) -> Raised | None:
    """Return what a printed traceback says, its causes too; ``None`` if the text holds none."""
    error: Raised | None = None
    joint = ""
    for place, part in enumerate(_JOINTS.split(text)):
        if place % 2:
            joint = part
            continue
        _, header, body = part.partition(HEADER)
        if header:
            frames, words = _read_chapter(body.splitlines())
            kind, _, message = words.partition(":")
            known = _TYPE.fullmatch(kind.strip())
            if joint.startswith("During") and not _ends_in_own_code(frames):
                error = None
            error = Raised(
                kind=known[1] if known else UNREAD,
                message=message if known else words,
                frames=tuple(frames),
                cause=error,
                in_worker=True,
            )
    return error


def _read_chapter(lines: list[str]) -> tuple[list[Frame], str]:
    """Read one error: indented lines down to its own words, which may have several lines."""
    end = next((place for place, line in enumerate(lines) if line[:1].strip()), len(lines))
    frames = []
    for line, below in zip(lines[:end], [*lines[1:end], ""], strict=False):
        if found := _FRAME.match(line):
            code = "" if _FRAME.match(below) else below.strip()
            frames.append(Frame(found[1], int(found[2]), found[3] or "<module>", code))
    return frames, "\n".join(lines[end:])


def _ends_in_own_code(frames: Sequence[Frame]) -> bool:
    return bool(frames) and is_own(frames[-1])


def is_own(frame: Frame) -> bool:
    """Tell a line of the user's own code from one of a library, of Python, or of feedrate."""
    return not _LIBRARY.search(frame.file) and not frame.file.startswith(_PYTHON)


def own_place(error: Raised) -> str:
    """Return the user's own innermost line, as ``(file.py, line 3, in name)``; "" if none is."""
    named: Raised | None = error
    while named is not None:
        own = [frame for frame in named.frames if is_own(frame)]
        if own:
            short = re.split(r"[/\\]", own[-1].file)[-1]
            return one_line(f"({short}, line {own[-1].line}, in {own[-1].name})")
        named = named.cause
    return ""


def culprit(error: Raised) -> str:
    """Return the part of the measured loop that an error was raised in, as a sentence's subject."""
    frames = error.frames
    in_loop = bool(frames) and bool(_IN_LOOP.search(frames[0].file))
    in_step = in_loop and frames[0].code.startswith("step(")
    fetch = next((frame.code for frame in reversed(frames) if _IN_FETCH.search(frame.file)), None)
    collates = fetch is not None and "collate_fn(" in fetch
    subjects = (
        (in_step and _passes(frames, _IN_DEVICE), "copying a batch to the device"),
        (in_step, "the step"),
        (any("init_fn(" in frame.code for frame in frames), "worker_init_fn"),
        (collates and own_place(error), "the collate function"),
        (collates, "collating a batch"),
        (fetch is not None, "the dataset"),
        (_passes(frames, _IN_PINNING), "pinning a batch"),
        (_passes(frames, _IN_STARTING), "starting a worker"),
        (any(frame.name == "_next_index" for frame in frames), "the sampler"),
        (in_loop or error.in_worker, "the loader"),
    )
    return next((subject for found, subject in subjects if found), "the target")


def _passes(frames: Sequence[Frame], place: re.Pattern[str]) -> bool:
    return any(place.search(frame.file) for frame in frames)


def culprit_of_setup(error: Raised) -> str:
    """Return what was being done when an error was raised before the first batch was asked for."""
    if any(frame.name == "load_module" for frame in error.frames):
        return "importing the target"
    return "the target's function" if own_place(error) else "setting up the target"


def raised_in_torch_data(error: Raised) -> bool:
    """Tell whether torch's data loading itself raised an error, and not code that it called."""
    return bool(error.frames) and bool(_IN_DATA.search(error.frames[-1].file))


def is_stray(end: StopIteration) -> bool:
    """Tell an end that the dataset or the collate function raised from the loader's own.

    A for loop takes both for its end. In an IterableDataset ``next()`` may raise it rightly.
    """
    if WORKER.search(text_of(end)):
        return True
    if not any(
        _IN_FETCH.search(f.f_code.co_filename) for f, _ in traceback.walk_tb(end.__traceback__)
    ):
        return False  # the usual end, told without a look at sources
    return any(
        _IN_FETCH.search(frame.filename) and _CALLS_THE_USER.search(frame.line or "")
        for frame in traceback.extract_tb(end.__traceback__)
    )
