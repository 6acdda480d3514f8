"""The verbs that read results: ``report``."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from feedrate.cli.result_options import ForceOption, JsonOption, VerboseOption
from feedrate.errors import FormatError, UsageError

_WITHOUT_FIGURE = ("doctor", "explain")


def report(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE.json]", help="A result. Default: the newest one measured."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FIGURE",
            help="Draw the figure instead: .png, .svg or .pdf, by the ending.",
        ),
    ] = None,
    figure: Annotated[Path | None, typer.Option(hidden=True)] = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show a result again: table and verdicts, or its figure, from the file alone."""
    from feedrate import store
    from feedrate.api import judged
    from feedrate.cli.output import check_figure, draw, print_result
    from feedrate.cli.terminal import say

    if figure is not None:
        raise UsageError(f"report draws with -o, not with --figure as bench does: -o {figure}")
    if output is not None and output.suffix.lower() == ".json":
        raise UsageError(
            f"-o draws the figure, and {output} is a result's name; a result is a file already, "
            "and --json prints it"
        )
    if file is None:
        file = store.latest()
        if file is None:
            raise FormatError("nothing was measured yet; name a file, or run feedrate bench")
    if output is not None:
        check_figure(output, force=force)
    with _values_of(file):
        suite = judged(store.load(file))
        if output is not None and suite.kind in _WITHOUT_FIGURE:
            raise UsageError(f"{file} is of feedrate {suite.kind}, of which no figure can be drawn")
        if output is not None:
            draw(suite, output)
            say(f"figure: {output}")
        else:
            print_result(suite, as_json=as_json, verbose=verbose)


@contextmanager
def _values_of(file: Path) -> Iterator[None]:
    """Explain what arithmetic makes of values that no measuring gives, as of an edited file.

    Raises:
        FormatError: arithmetic failed; its details tell where.
    """
    try:
        yield
    except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
        raise FormatError(
            f"{file} holds values that no measuring gives ({type(error).__name__}: {error}); "
            "measure again to replace it",
            details=traceback.format_exc(),
        ) from error
