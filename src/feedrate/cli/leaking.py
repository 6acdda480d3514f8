"""The verb ``leaks``. Thin: parse, call `feedrate.leak_api`, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feedrate.cli.result_options import ForceOption, JsonOption, OutputOption, VerboseOption
from feedrate.cli.target_options import (
    MEASURING,
    DeviceOption,
    ModuleOption,
    ScriptArguments,
    SeedOption,
    StepMsOption,
    StepOption,
    TargetArgument,
    TimeoutOption,
)

if TYPE_CHECKING:
    from feedrate.measure.leak_watcher import LeakWatcher
    from feedrate.records import Suite

LIMITS = "How long to watch"

LEAK = 3
"""The exit code where something grows."""


def leaks(
    target: TargetArgument,
    arguments: ScriptArguments = None,
    module: ModuleOption = False,
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
    step: StepOption = None,
    step_ms: StepMsOption = None,
    device: DeviceOption = "auto",
    seed: SeedOption = None,
    timeout: TimeoutOption = 300,
    memray: Annotated[
        bool,
        typer.Option(
            "--memray",
            help="Where a process grows outside Python objects, look with memray for the line that "
            "has C code allocate it.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Find out before a long training whether its memory grows, where, and of what kind.

    Ends with exit code 3 where something grows, with 1 where the target failed before anything was
    seen to grow. Options of feedrate come before the script; all that follows it is the script's
    own.
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
                    memray=memray,
                    save=out.save,
                    watcher=watcher,
                )

            suite = out.watched(leak_progress(notices(), limit), measure)
    except KeyboardInterrupt:
        # a watch that runs has its own way; this is before it
        raise Interrupted("interrupted before anything was seen") from None
    if any(grows(finding) for finding in suite.findings):
        raise typer.Exit(LEAK)
