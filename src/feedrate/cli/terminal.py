"""Standard output and standard error: what they refuse loses nothing that was measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, TypeVar, cast

from rich.console import Console

from feedrate.errors import OutputError

T = TypeVar("T")

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


class _Watched:
    """Standard output whose refusals are told wherever they come up, in the help texts too.

    A refusal is told again at every later call: libraries try a stream out and pass over errors.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._refused: OutputError | SystemExit | None = None

    def write(self, text: str) -> int:
        return self._told(lambda: self._stream.write(text))

    def flush(self) -> None:
        self._told(self._stream.flush)

    def _told(self, call: Callable[[], T]) -> T:
        if self._refused is not None:
            raise self._refused
        try:
            with _refusals_explained(self._stream):
                return call()
        except (OutputError, SystemExit) as refused:
            self._refused = refused
            raise

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
    if sys.stdout is None:
        raise OutputError("standard output is closed, so the result is not printed")
    with _refusals_explained(sys.stdout):
        yield
        sys.stdout.flush()


@contextmanager
def refusals_explained() -> Iterator[None]:
    """Run a whole command inside of this, so that whatever it prints may be refused.

    Raises:
        OutputError: standard output cannot be written.
        SystemExit: its reader has gone.
    """
    stdout = sys.stdout
    if stdout is None:
        yield
        return
    watched = _Watched(stdout)
    sys.stdout = cast(TextIO, watched)
    try:
        yield
    finally:
        sys.stdout = stdout
        watched.flush()


@contextmanager
def _refusals_explained(stream: TextIO) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        silence(stream)
        raise SystemExit(READER_GONE) from None
    except OSError as error:
        silence(stream)
        raise OutputError(
            f"standard output cannot be written ({error.strerror}): make room, or send it elsewhere"
        ) from error


def silence(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, or Python would complain once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
