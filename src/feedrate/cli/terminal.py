"""Standard output and standard error: what they refuse loses nothing that was measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, cast

from rich.console import Console

from feedrate.errors import OutputError

READER_GONE = 141
"""What a shell gives a program whose output nobody reads any more (128 + SIGPIPE)."""


class _Results(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `results_go_out`; Rich would end the process here."""
        raise BrokenPipeError


class _Forgiving:
    """Standard error that takes everything: a full log or a reader that has gone ends nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            silence(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            silence(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def results() -> Console:
    """Return what results are printed on; use it inside `results_go_out`."""
    return _Results(emoji=False)


def notices() -> Console:
    """Return what is printed on for people, beside the result: standard error."""
    if sys.stderr is None:
        return Console(stderr=True, emoji=False)
    return Console(file=cast(IO[str], _Forgiving(sys.stderr)), emoji=False)


def say(text: str) -> None:
    """Print a line for people on standard error, as it is."""
    if sys.stderr is not None:
        print(text, file=_Forgiving(sys.stderr), flush=True)


@contextmanager
def results_go_out() -> Iterator[None]:
    """Print results inside of this, and nothing else.

    Raises:
        OutputError: standard output is closed, or cannot be written.
        SystemExit: its reader has gone (``feedrate report | head``); nothing is wrong.
    """
    try:
        if sys.stdout is None:
            raise OutputError("standard output is closed, so the result is not printed")
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        raise SystemExit(READER_GONE) from None
    except OSError as error:
        silence(sys.stdout)
        raise OutputError(
            f"standard output cannot be written ({error.strerror}): make room, or send it elsewhere"
        ) from error


def silence(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, or Python would complain once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
