"""The options of every verb that makes or shows a result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RESULT = "Result"

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Save the result here, after every run. Without it, it goes to the state folder, "
        "which keeps the newest 20.",
        rich_help_panel=RESULT,
    ),
]
FigureOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw the figure: .png, .svg or .pdf.", rich_help_panel=RESULT
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print the file's content, nothing else.", rich_help_panel=RESULT),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel=RESULT)
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show every run, the evidence, and whole tracebacks.",
        rich_help_panel=RESULT,
    ),
]
