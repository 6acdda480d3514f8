"""The verb ``leaks``. Thin: parse, call `feedrate.leak_api`, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feedrate.cli.result_options import ForceOption, JsonOption, OutputOption, VerboseOption

if TYPE_CHECKING:
    from feedrate.measure.leak_watcher import LeakWatcher
    from feedrate.records import Suite

LIMITS = "How long to watch"
MEASURING = "Measuring"

LEAK = 3
"""The exit code where something grows."""


def leaks(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT_OR_TARGET",
            help="train.py, run as it is with all arguments that follow; or file.py:name or "
            "package.module:name, a function that returns a DataLoader, a Dataset or "
            "(loader, step).",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="The script's own.")
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT_OR_TARGET is a module's name, as in python -m.")
    ] = False,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Watch no more epochs than this. Default: as many as the verdict needs.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    seconds: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Watch no longer than this: 90s, 10m.", rich_help_panel=LIMITS
        ),
    ] = "120s",
    max_batches: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="End each epoch of a function's loader after so many batches.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Use so many workers instead of the loader's own number.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    loader: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The loader to watch, counted from 0 as the script first iterates them. "
            "Default: the one whose batches are followed by optimizer steps.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A function step(batch) in the target's module: one training step.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    step_ms: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Simulate a step of so many milliseconds where there is none.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Where batches go when there is no step: auto, cpu, cuda, cuda:1, mps.",
            rich_help_panel=MEASURING,
        ),
    ] = "auto",
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seeds random, NumPy and torch before a function is called (default 0); a script "
            "is left alone.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            min=1, help="Give up after so many seconds without a batch.", rich_help_panel=MEASURING
        ),
    ] = 300,
    output: OutputOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Find out before a long training whether its memory grows, where, and of what kind.

    Ends with exit code 3 where something grows. Options of feedrate come before the script; all
    that follows it is the script's own.
    """
    from feedrate.cli.leak_progress import leak_progress
    from feedrate.cli.output import open_output, same_file
    from feedrate.cli.terminal import notices
    from feedrate.cli.tune_options import parse_seconds
    from feedrate.errors import Interrupted, UsageError

    if output is not None and same_file(output, Path(target.rpartition(":")[0] or target)):
        raise UsageError(f"{output} is the target itself; name another file for the result")
    limit = parse_seconds(seconds, "--seconds")
    from feedrate import leak_api
    from feedrate.analysis.leak_suite import grows
    from feedrate.measure.asked import asked

    try:
        with open_output(
            output, None, as_json=as_json, force=force, verbose=verbose, kind="leaks"
        ) as out:
            what = asked(target, step, arguments or (), module=module)
            if seed is None and what.script is None:
                seed = 0

            def measure(watcher: LeakWatcher) -> Suite:
                return leak_api.check_asked(
                    what,
                    epochs=epochs,
                    seconds=limit,
                    max_batches=max_batches,
                    workers=workers,
                    loader=loader,
                    step_ms=step_ms,
                    device=device,
                    seed=seed,
                    timeout=timeout,
                    save=out.save,
                    watcher=watcher,
                )

            suite = out.watched(leak_progress(notices(), limit), measure)
    except KeyboardInterrupt:
        # a watch that runs has its own way; this is before it
        raise Interrupted("interrupted before anything was seen") from None
    if any(grows(finding) for finding in suite.findings):
        raise typer.Exit(LEAK)
