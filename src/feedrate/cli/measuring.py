"""The verbs that measure: ``bench`` and ``demo``. Thin: parse, call `feedrate.api`, print."""

from __future__ import annotations

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
    StepMsOption,
    StepOption,
    TimeoutOption,
)

if TYPE_CHECKING:
    from feedrate.measure.manager import Watcher
    from feedrate.records import Suite

SETTINGS = "Settings to combine"
EXPERIMENT = "The published experiment (TARGET fashion-mnist)"

EPOCHS, REPEATS, PLAN_EPOCHS = 2, 1, 10
"""Defaults, by which an option that was given is told from one that was not."""


def bench(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="file.py:name or package.module:name, a function that returns a DataLoader, a "
            "Dataset or (loader, step); or fashion-mnist, the published experiment.",
        ),
    ],
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="Worker counts. Default: 0 up to twice the usable CPUs.",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    prefetch_factor: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="Batches that each worker loads ahead.",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    pin_memory: Annotated[
        str | None,
        typer.Option(
            metavar="off,on",
            help="Copy batches into pinned memory, for an accelerator.",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    persistent_workers: Annotated[
        str | None,
        typer.Option(
            metavar="off,on",
            help="Keep the workers from epoch to epoch.",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    start_method: Annotated[
        str | None,
        typer.Option(
            metavar="fork,forkserver,spawn",
            help="How workers are started.",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    batch_size: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Items in a batch.", rich_help_panel=SETTINGS),
    ] = None,
    epochs: Annotated[
        int,
        typer.Option(
            min=1, help="Passes in each run; the first is cold.", rich_help_panel=MEASURING
        ),
    ] = EPOCHS,
    repeats: Annotated[
        int,
        typer.Option(
            min=1, help="Runs of each setting, in rotated order.", rich_help_panel=MEASURING
        ),
    ] = REPEATS,
    max_batches: Annotated[
        int | None,
        typer.Option(min=1, help="End each epoch after so many.", rich_help_panel=MEASURING),
    ] = None,
    step: StepOption = None,
    step_ms: StepMsOption = None,
    device: DeviceOption = "auto",
    seed: Annotated[
        int,
        typer.Option(
            help="Seeds random, NumPy and torch before the target is made.",
            rich_help_panel=MEASURING,
        ),
    ] = 0,
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
    plan_epochs: Annotated[
        int,
        typer.Option(
            min=1,
            help="Length of the job that start-up is held against.",
            rich_help_panel=MEASURING,
        ),
    ] = PLAN_EPOCHS,
    output: OutputOption = None,
    figure: FigureOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    verbose: VerboseOption = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the data is or goes.", rich_help_panel=EXPERIMENT),
    ] = None,
    synthetic: Annotated[
        bool,
        typer.Option(
            "--synthetic",
            help="Write made-up images of the same size and type; needs no network.",
            rich_help_panel=EXPERIMENT,
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short pass.", rich_help_panel=EXPERIMENT)
    ] = False,
    conditions: Annotated[
        str | None,
        typer.Option(
            metavar="light,augmented",
            help="Which transforms to measure. Default: both.",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    loaders: Annotated[
        str | None,
        typer.Option(
            metavar="torch,feedrate",
            help="Whose loader; several are measured in turn. Default: torch, as published.",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
) -> None:
    """Measure how the rate depends on the loader's settings, with start-up and memory.

    Each run is made in a fresh process on your own loader; only the named settings vary.
    """
    from feedrate.cli import options
    from feedrate.cli.experiment import TARGET, refuse, run_published
    from feedrate.cli.output import open_output, same_file
    from feedrate.errors import UsageError
    from feedrate.measure.named import foresee

    if output is not None and same_file(output, Path(target.rpartition(":")[0])):
        raise UsageError(f"{output} is the target itself; name another file for the result")
    worker_counts = None if workers is None else options.parse_ints(workers, "--workers")
    if target == TARGET:
        refuse(
            f"does not go with {TARGET}, whose protocol is fixed: leave it out",
            prefetch_factor=prefetch_factor,
            pin_memory=pin_memory,
            persistent_workers=persistent_workers,
            start_method=start_method,
            batch_size=batch_size,
            step=step,
            step_ms=step_ms,
            max_batches=max_batches,
            epochs=None if epochs == EPOCHS else epochs,
            repeats=None if repeats == REPEATS else repeats,
            plan_epochs=None if plan_epochs == PLAN_EPOCHS else plan_epochs,
        )
        whose = options.given(loaders, options.parse_loaders, "--loaders")
        with open_output(output, figure, as_json=as_json, force=force, verbose=verbose) as out:
            run_published(
                out,
                data_dir=data_dir,
                synthetic=synthetic,
                quick=quick,
                conditions=conditions,
                workers=worker_counts,
                loaders=whose,
                device=device,
                seed=seed,
                timeout=timeout,
                tolerance=tolerance,
            )
        return
    refuse(
        f"belongs to the published experiment: feedrate bench {TARGET}",
        data_dir=data_dir,
        synthetic=synthetic or None,
        quick=quick or None,
        conditions=conditions,
        loaders=loaders,
    )
    foresee(target, step)  # what measuring needs takes a second to import
    from feedrate import api

    def measure(watcher: Watcher) -> Suite:
        return api.bench(
            target,
            workers=worker_counts,
            prefetch_factor=options.given(
                prefetch_factor, options.parse_ints, "--prefetch-factor", least=1
            ),
            pin_memory=options.given(pin_memory, options.parse_switches, "--pin-memory"),
            persistent_workers=options.given(
                persistent_workers, options.parse_switches, "--persistent-workers"
            ),
            start_method=options.given(start_method, options.parse_start_methods, "--start-method"),
            batch_size=options.given(batch_size, options.parse_ints, "--batch-size", least=1),
            epochs=epochs,
            repeats=repeats,
            max_batches=max_batches,
            step=step,
            step_ms=step_ms,
            device=device,
            seed=seed,
            timeout=timeout,
            tolerance=tolerance,
            plan_epochs=plan_epochs,
            save=out.save,
            watcher=watcher,
        )

    with open_output(output, figure, as_json=as_json, force=force, verbose=verbose) as out:
        out.measure(measure, cut=max_batches is not None)


def demo(
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where photographs, script, result and figure go.")
    ] = Path("feedrate-demo"),
    verbose: VerboseOption = False,
) -> None:
    """Tune a script that trains on real JPEG photographs on this machine, in under a minute.

    Makes a folder of photographs and a script that decodes, augments and batches them for a small
    network, finds the best settings of its loader, and shows curve, recommendation and figure.
    """
    from feedrate.cli.demonstrating import run_demo

    run_demo(folder, verbose=verbose)
