"""The verb ``doctor``: what is set up wrongly, on this machine and in a target."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feedrate.cli.result_options import RESULT, ForceOption, JsonOption, VerboseOption
from feedrate.cli.target_options import ModuleOption, ScriptArguments
from feedrate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feedrate.doctor.checks import Check
    from feedrate.doctor.machine_facts import MachineFacts
    from feedrate.doctor.target_facts import TargetFacts
    from feedrate.measure.asked import Asked
    from feedrate.records import Suite

LOOKING = "Looking"
MACHINE = "this machine"
"""What is looked at where no target is named."""
_AROUND_SECONDS = 1.0
"""What the command itself takes: its start, and the look at the files that the target reads."""
_LEAST_SECONDS = 1.0
NEEDS_ACTION = 3
"""The exit code where something needs to be done."""


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCRIPT_OR_TARGET]",
            help="train.py, run as it is with all arguments that follow; or file.py:name or "
            "package.module:name, a function that returns a DataLoader, a Dataset or "
            "(loader, step). Without it: the machine alone.",
        ),
    ] = None,
    arguments: ScriptArguments = None,
    module: ModuleOption = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The files that are read: their storage, and their size against memory.",
            rich_help_panel=LOOKING,
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Time for a look with a target, all of it: 30s, 2m.",
            rich_help_panel=LOOKING,
        ),
    ] = "30s",
    step: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A function step(batch) in the target's module: one training step.",
            rich_help_panel=LOOKING,
        ),
    ] = None,
    show_all: Annotated[
        bool,
        typer.Option(
            "--all", help="Show what was looked at and is fine, too.", rich_help_panel=RESULT
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Save the result here.", rich_help_panel=RESULT
        ),
    ] = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Look for what is set up wrongly: on this machine, and in a dataset and its loader.

    Prints what matters, each with its figures, what follows from it and the remedy. Exit code 0:
    nothing needs to be done; 3: something does.
    """
    began = time.monotonic()

    from msgspec import structs

    from feedrate import store
    from feedrate.cli.output import print_result
    from feedrate.cli.terminal import say
    from feedrate.doctor.checks import DoctorFacts, needs_action, run_checks
    from feedrate.doctor.machine import gather_machine, with_files
    from feedrate.doctor.machine_checks import CHECKS

    seconds = _seconds(budget, target, step, module=module)
    if data is not None and not data.exists():
        raise UsageError(f"there is no {data}; --data names the files or the folder that is read")
    file = store.ResultFile.open(output, force) if output is not None else None
    what, checks = None, CHECKS
    if target is not None:
        from feedrate.measure.asked import asked

        what = asked(target, step, arguments or (), module=module)
        checks = (*_target_checks(), *CHECKS)
    machine = gather_machine(data)
    looked = None
    if what is not None:
        left = seconds - (time.monotonic() - began) - _AROUND_SECONDS
        looked = _look(what, machine, max(_LEAST_SECONDS, left))
        if data is None:
            machine = with_files(machine, looked.items.files if looked.items is not None else ())
    facts = DoctorFacts(machine, looked)
    findings, fine = run_checks(checks, facts)
    suite = _suite(machine, MACHINE if what is None else what.shown, seconds)
    suite = structs.replace(suite, findings=findings, looked_at=fine)
    if file is not None:
        with file:
            file.save(suite)
    print_result(suite, as_json=as_json, verbose=verbose or show_all)
    if file is not None:
        name = shlex.quote(str(file.path))
        say(f"saved: {name}")
        say(f"next:  feedrate report {name}")
    if needs_action(findings):
        raise typer.Exit(NEEDS_ACTION)


def _seconds(budget: str, target: str | None, step: str | None, *, module: bool) -> float:
    """Return the time for a look.

    Raises:
        UsageError: it is no time, or there are options of a target and no target.
    """
    from feedrate.cli.tune_options import parse_seconds

    if target is None and (module or step is not None):
        raise UsageError(f"{'-m' if module else '--step'} goes with a target: name one")
    return parse_seconds(budget, "--budget")


def _target_checks() -> Sequence[Check]:
    from feedrate.doctor.target_checks import CHECKS

    return CHECKS


def _look(what: Asked, machine: MachineFacts, seconds: float) -> TargetFacts:
    from feedrate import units
    from feedrate.cli.terminal import notices
    from feedrate.doctor.target_session import gather

    console = notices()
    shown = f"looking at {what.shown}, {units.duration(seconds)} at most"
    with console.status(shown) if console.is_terminal else contextlib.nullcontext():
        return gather(what, machine=machine, budget=seconds)


def _suite(machine: MachineFacts, target: str, seconds: float) -> Suite:
    from msgspec import structs

    from feedrate.doctor.first_guess import usable_gpus
    from feedrate.host.metadata import gather
    from feedrate.records import Procedure, Suite

    metadata = gather(target, tuple(sys.argv), None, datetime.now(timezone.utc).isoformat())
    gpus = usable_gpus(machine)
    names = machine.gpus.names[:1] if machine.software.build != "cpu" else ()
    return Suite(
        kind="doctor",
        metadata=structs.replace(
            metadata,
            torch_version=machine.software.torch,
            torchvision_version=machine.software.torchvision,
            accelerator=f"{gpus} × {names[0]}" if gpus and names else None,
            default_start_method=machine.host.start_method,
        ),
        procedure=Procedure(epochs=0, repeats=0, budget_seconds=seconds),
    )
