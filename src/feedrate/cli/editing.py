"""The verb that changes the user's source: ``apply``."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feedrate.cli.terminal import results, results_go_out, say
from feedrate.errors import MissingExtra, TargetError, UsageError
from feedrate.records import LoaderFacts, Recommendation, Suite

if TYPE_CHECKING:
    from feedrate.edit import Edit, SourceBytes

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def apply(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT.json", help="What feedrate tune has saved.")
    ],
    script: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE.py",
            help="Where the loader is made. Default: where it was when it was measured.",
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Make the change; without it the file is left alone.")
    ] = False,
) -> None:
    """Show the recommended settings as a change of your DataLoader call, and make it.

    Prints a unified diff; says where to change settings that come from variables or options.
    """
    from feedrate import store

    suite = store.load(result)
    recommendation = suite.recommendation
    if recommendation is None:
        say(_nothing_to_apply(suite, result))
        return
    if find_spec("libcst") is None:
        raise MissingExtra("feedrate apply needs LibCST: run pip install 'feedrate[apply]'")
    path = _file_to_edit(recommendation, script, result)
    if _apply(path, recommendation, suite, write=write) and not write:
        names = [str(result)] + ([] if script is None else [str(script)])
        say(f"next:  feedrate apply {shlex.join(names)} --write")


def _nothing_to_apply(suite: Suite, result: Path) -> str:
    if suite.kind == "tune":
        return f"{result} recommends no change: keep your settings"
    return f"{result} recommends nothing to apply: feedrate tune finds and confirms settings"


def _file_to_edit(recommendation: Recommendation, script: Path | None, result: Path) -> Path:
    """Return the file in which the loader is made.

    Raises:
        TargetError: that is not known, or not the user's.
        UsageError: it is another than the one that was named.
    """
    if recommendation.file is None or recommendation.line_number is None:
        wanted = f": give it {recommendation.line} there" if recommendation.line else ""
        raise TargetError(f"the loader that {result} is about is not made in your code{wanted}")
    if recommendation.file.startswith("<"):
        raise TargetError(
            f"the loader that {result} is about was made at a prompt and not in a file: give it "
            f"{recommendation.line}"
        )
    measured = Path(recommendation.file)
    if script is None:
        return _shown(measured)
    # A copy of the file, in another folder or on another machine, has its name at least.
    if os.path.realpath(script) != os.path.realpath(measured) and script.name != measured.name:
        raise UsageError(
            f"the loader is not made in {script} but in {_shown(measured)}, line "
            f"{recommendation.line_number}: name that file, or none"
        )
    return script


def _shown(path: Path) -> Path:
    """Return a path relative to the current folder where it is inside of it."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def _apply(path: Path, recommendation: Recommendation, suite: Suite, *, write: bool) -> bool:
    """Show the change, and what is left to change by hand; return whether there is one."""
    from feedrate.cli import source_file
    from feedrate.edit import SourceBytes, edit_call

    assert recommendation.line_number is not None
    data = source_file.read(path)
    source = SourceBytes.decode(data, str(path))
    edit = edit_call(
        source.text,
        recommendation.line_number,
        recommendation.settings,
        name=str(path),
        facts=_measured(suite, recommendation),
    )
    changed = edit.source != source.text
    if changed:
        _print_diff(source, edit.source, path)
        if doubt := _doubt(edit, path, recommendation.line_number, suite):
            say(doubt)
    elif not edit.notes:
        say(f"{path}, line {edit.line}, has the recommended settings already")
    for note in edit.notes:
        say(note)
    for statement in recommendation.statements:
        say(f"write {statement} before the loop yourself: it was measured with it")
    if changed and write:
        source_file.replace(path, data, source.encode(edit.source))
        say(f"written: {path}, line {edit.line}")
    return changed


def _doubt(edit: Edit, path: Path, line: int, suite: Suite) -> str | None:
    """Return why the call may be another than the one that was measured."""
    if edit.moved:
        return (
            f"The call was on line {line} and is on line {edit.line} now: see that it is the one."
        )
    if not edit.only and _is_newer(path, suite.metadata.started_at):
        return f"{path} was changed after it was measured: see that line {edit.line} is the one."
    return None


def _is_newer(path: Path, moment: str) -> bool:
    try:
        return path.stat().st_mtime > datetime.fromisoformat(moment).timestamp()
    except (OSError, ValueError):
        return False


def _measured(suite: Suite, recommendation: Recommendation) -> list[LoaderFacts]:
    """Return what the recommendation's loader had in the runs, in their order."""
    runs = [run for benchmark in suite.benchmarks for run in benchmark.runs]
    return [
        use.facts
        for run in sorted(runs, key=lambda run: run.position)
        for use in run.loaders
        if (use.file, use.line) == (recommendation.file, recommendation.line_number)
    ]


def _print_diff(source: SourceBytes, after: str, path: Path) -> None:
    """Print the diff: coloured on a terminal, else in the file's bytes, so that patch takes it.

    Raises:
        OutputError: it cannot be written.
    """
    from rich.text import Text

    from feedrate.edit.difference import unified_diff

    has_mark = source.encoding == "utf-8-sig"
    mark, encoding = ("\ufeff", "utf-8") if has_mark else ("", source.encoding)
    lines = list(unified_diff(mark + source.text, mark + after, str(path)))
    with results_go_out():
        if not sys.stdout.isatty():
            # All but the path can be encoded.
            sys.stdout.buffer.write("".join(lines).encode(encoding, "backslashreplace"))
            return
        console = results()
        for line in lines:
            style = "bold" if line.startswith(("---", "+++")) else _COLOURS.get(line[0], "")
            console.print(Text(line.rstrip("\r\n"), style), soft_wrap=True)
