"""What is measured and how its loop goes: the arguments and options of the verbs that run it."""

from __future__ import annotations

from typing import Annotated

import typer

MEASURING = "Measuring"

SCRIPT_ARGUMENTS = {"allow_interspersed_args": False}
"""What follows the target belongs to the script, options too."""

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCRIPT_OR_TARGET",
        help="train.py, run as it is with all arguments that follow; or file.py:name or "
        "package.module:name, a function that returns a DataLoader, a Dataset or "
        "(loader, step).",
    ),
]
ScriptArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="The script's own.")
]
ModuleOption = Annotated[
    bool, typer.Option("-m", help="SCRIPT_OR_TARGET is a module's name, as in python -m.")
]
StepOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A function step(batch) in the target's module: one training step.",
        rich_help_panel=MEASURING,
    ),
]
StepMsOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Simulate a step of so many milliseconds where there is none.",
        rich_help_panel=MEASURING,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="Where batches go when there is no step: auto, cpu, cuda, cuda:1, mps.",
        rich_help_panel=MEASURING,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Seeds random, NumPy and torch before a function is called (default 0); a script "
        "is left alone.",
        rich_help_panel=MEASURING,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        min=1,
        help="Give a run up after so many seconds without a batch.",
        rich_help_panel=MEASURING,
    ),
]
