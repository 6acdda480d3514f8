"""The verb ``explain``: what an error means, from a log, a traceback or a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from feedrate.cli.result_options import JsonOption, VerboseOption
from feedrate.errors import FeedrateError, FormatError, UsageError

if TYPE_CHECKING:
    from feedrate.doctor.entry import Explanation
    from feedrate.doctor.reading import Excerpt
    from feedrate.records import Suite

_STDIN = Path("-")
_PIPE = "python train.py 2>&1 | feedrate explain -"


def explain(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE | -]",
            help="A log or traceback, or a dump of py-spy. - or nothing: what is piped in.",
        ),
    ] = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what the error in a log means: the cause, why, the remedy, and this machine's figures.

    The cause is looked for under wrappers and repeated tracebacks of workers and ranks; the
    likeliest is named first. python train.py 2>&1 | feedrate explain - reads a running program
    to its end. Exit code 0: something was explained; 1: no error was found, or none that is known.
    """
    from feedrate.cli.output import print_result
    from feedrate.doctor.explaining import explain_text, worth_telling
    from feedrate.doctor.facts import Facts, gather_host

    excerpt, name = _read(file)
    host = gather_host()
    found = explain_text(excerpt.text, Facts(host))
    told = found if verbose else worth_telling(found)
    suite = _suite(told, name)
    if told or as_json:
        print_result(suite, as_json=as_json, verbose=verbose)
    if not told:
        raise FeedrateError(_nothing_in(excerpt, name))
    if all(explanation.code == "unknown" for explanation in told):
        raise typer.Exit(1)


def explain_death(error: BaseException) -> None:
    """Say on standard error what the error means that ended a program, if it is known.

    Nothing that happens here is raised: the program's own error is the one that counts.
    """
    with contextlib.suppress(Exception):
        import traceback

        from feedrate.cli.terminal import notices
        from feedrate.doctor.explaining import explain_text
        from feedrate.doctor.facts import Facts, gather_host
        from feedrate.report.explanations import explained
        from feedrate.report.portable import Portable

        text = "".join(traceback.format_exception(error))
        known = [
            explanation
            for explanation in explain_text(text, Facts(gather_host()))
            if explanation.severity == "error" and explanation.code != "unknown"
        ]
        if known:
            console = notices()
            console.print()
            for line in explained(known[0].finding()):
                console.print(Portable(line), highlight=False)


def _suite(told: Sequence[Explanation], name: str) -> Suite:
    import msgspec

    from feedrate.host.metadata import gather
    from feedrate.measure.versions import versions
    from feedrate.records import Procedure, Suite

    metadata = gather(name, tuple(sys.argv), None, datetime.now(timezone.utc).isoformat())
    known = versions()
    return Suite(
        kind="explain",
        metadata=msgspec.structs.replace(
            metadata,
            torch_version=known.get("torch"),
            torchvision_version=known.get("torchvision"),
        ),
        procedure=Procedure(epochs=0, repeats=0),
        findings=tuple(explanation.finding() for explanation in told),
    )


def _read(file: Path | None) -> tuple[Excerpt, str]:
    """Return what there is to explain, and its name.

    Raises:
        UsageError: there is neither a file nor a pipe.
        FormatError: it cannot be read, or is no text.
    """
    from feedrate.doctor.reading import read_excerpt

    if file is None or file == _STDIN:
        stream = _piped(asked=file is not None)
        return read_excerpt(stream, "standard input"), "standard input"
    try:
        with file.open("rb") as opened:
            return read_excerpt(opened, str(file)), str(file)
    except FileNotFoundError:
        raise FormatError(f"there is no file {file}; name a log, or pipe one in: {_PIPE}") from None
    except IsADirectoryError:
        raise FormatError(f"{file} is a folder; name a log in it") from None
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}") from error


def _piped(*, asked: bool) -> BinaryIO:
    if sys.stdin is None:
        raise UsageError(f"standard input is closed; name a log, or pipe one in: {_PIPE}")
    if sys.stdin.isatty() and not asked:
        raise UsageError(f"name a log, or pipe one in: {_PIPE}")
    return sys.stdin.buffer


def _nothing_in(excerpt: Excerpt, name: str) -> str:
    if not excerpt.text.strip():
        return f"{name} is empty: send errors along too (2>&1), as in {_PIPE}"
    lines = excerpt.text.rstrip("\n").count("\n") + 1
    more = "" if excerpt.whole else f", those of {excerpt.bytes:,} bytes that may tell of errors"
    return (
        f"no error and no warning that feedrate knows is in {name} (lines looked at: {lines:,}"
        f"{more}); if it is a hang, dump its stacks: py-spy dump --pid PID --subprocesses | "
        "feedrate explain -"
    )
