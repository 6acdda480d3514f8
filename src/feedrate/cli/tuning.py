"""The verb ``tune``. Thin: parse, call `feedrate.tune_api`, print."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feedrate.cli.result_options import (
    FigureOption,
    ForceOption,
    JsonOption,
    OutputOption,
    VerboseOption,
)
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
    from feedrate.cli.output import Output
    from feedrate.measure.tune_watcher import TuneWatcher
    from feedrate.records import Suite

LIMITS = "What may be used"


def tune(
    target: TargetArgument,
    arguments: ScriptArguments = None,
    module: ModuleOption = False,
    budget: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Time for all runs together: 60s, 5m. A look, a short search and two "
            "confirmations are made in any case.",
            rich_help_panel=LIMITS,
        ),
    ] = "60s",
    max_workers: Annotated[
        int | None,
        typer.Option(min=1, help="Never more workers than this.", rich_help_panel=LIMITS),
    ] = None,
    max_ram: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of the main process and all workers: 8G. Default: what is free.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    max_shm: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Of /dev/shm. Default: what is free.", rich_help_panel=LIMITS
        ),
    ] = None,
    loader: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The loader that trains, counted from 0 as the script first iterates them. "
            "Default: the one whose batches are followed by optimizer steps.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    step: StepOption = None,
    step_ms: StepMsOption = None,
    device: DeviceOption = "auto",
    seed: SeedOption = None,
    timeout: TimeoutOption = 300,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.5,
            help="Rates that differ by less than this share are the same.",
            rich_help_panel=MEASURING,
        ),
    ] = 0.03,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SETTING",
            help="Try this too where it may help, though it changes what is trained: in_order, "
            "batch_size.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    dry: Annotated[
        bool,
        typer.Option(
            "--dry",
            help="Run the script in a temporary copy of this folder, so that what it writes goes.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Search again, though an earlier tune of this target is known.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    go_on: Annotated[
        bool,
        typer.Option(
            "--continue",
            help="Run the script to its end afterwards, with the settings that were found.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    output: OutputOption = None,
    figure: FigureOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Find the best loader settings for a training script nobody changed, and confirm them.

    Options of feedrate come before the script; all that follows it is the script's own.
    """
    from feedrate import records, tune_api
    from feedrate.cli import continuing
    from feedrate.cli.dry_run import copied_folder, in_copy
    from feedrate.cli.output import open_output, same_file
    from feedrate.cli.ranks import is_left_to_rank_0
    from feedrate.cli.terminal import notices
    from feedrate.cli.tune_options import parse_names, parse_seconds, parse_size
    from feedrate.cli.tune_progress import tune_progress
    from feedrate.errors import FeedrateError, Interrupted, UsageError
    from feedrate.measure.asked import asked

    if is_left_to_rank_0(go_on=go_on):
        return
    for result in (output, figure):
        if result is not None and same_file(result, Path(target.rpartition(":")[0] or target)):
            raise UsageError(f"{result} is the target itself; name another file for the result")
    if go_on and (dry or as_json):
        raise UsageError(
            f"--continue does not go with {'--dry' if dry else '--json'}: leave one of them out"
        )
    seconds = parse_seconds(budget, "--budget")
    ram = parse_size(max_ram, "--max-ram") if max_ram is not None else None
    shm = parse_size(max_shm, "--max-shm") if max_shm is not None else None
    place = in_copy(target) if dry and target.endswith(".py") and not module else target
    out: Output | None = None
    try:
        with (
            open_output(
                output.absolute() if dry and output is not None else output,
                figure.absolute() if dry and figure is not None else figure,
                as_json=as_json,
                force=force,
                verbose=verbose,
                kind="tune",
            ) as out,
            copied_folder() if dry else contextlib.nullcontext() as copied,
        ):
            what = asked(place, step, arguments or (), module=module)
            if go_on and what.script is None:
                raise UsageError("--continue runs a script, and the target is a function")
            if seed is None and what.script is None:
                seed = 0

            def told(suite: Suite) -> Suite:
                return copied.told(suite) if copied is not None else suite

            def measure(watcher: TuneWatcher) -> Suite:
                try:
                    suite = tune_api.tune_asked(
                        what,
                        budget=seconds,
                        loader=loader,
                        max_workers=max_workers,
                        max_ram=ram,
                        max_shm=shm,
                        tolerance=tolerance,
                        step_ms=step_ms,
                        device=device,
                        seed=seed,
                        timeout=timeout,
                        allow=parse_names(allow or ()),
                        fresh=fresh,
                        keep_profile=not dry,
                        save=lambda suite: out.save(told(suite)),
                        watcher=watcher,
                    )
                except FeedrateError as error:
                    if isinstance(error.suite, records.Suite):
                        error.suite = told(error.suite)
                    raise
                return told(suite)

            tuned = out.watched(tune_progress(notices(), seconds), measure)
    except KeyboardInterrupt:
        # a child that runs has its own way; this is before the first, or while a result is shown
        raise Interrupted(_what_is_left(out)) from None
    if go_on and what.script is not None:
        continuing.go_on(what.script, tuned)


def _what_is_left(out: Output | None) -> str:
    """Return the sentence of a command that was interrupted between its children."""
    saved = out.saved if out is not None else None
    if saved is None:
        return "interrupted before anything was measured"
    name = shlex.quote(str(saved))
    return f"interrupted; what was measured is kept: feedrate report {name} shows it"
