"""The command ``feedrate``: one function a verb; errors become a sentence and an exit code here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from feedrate.cli.doctoring import doctor
from feedrate.cli.editing import apply
from feedrate.cli.explaining import explain
from feedrate.cli.leaking import leaks
from feedrate.cli.measuring import bench, demo
from feedrate.cli.results import report
from feedrate.cli.running import CONTEXT, run
from feedrate.cli.target_options import SCRIPT_ARGUMENTS
from feedrate.cli.terminal import refusals_explained, say
from feedrate.cli.tuning import tune
from feedrate.errors import FeedrateError, Interrupted
from feedrate.version import __version__

app = typer.Typer(
    name="feedrate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"feedrate {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 ok · 1 nothing could be measured, or another error · 2 usage · 3 a "
    "finding that needs action · 4 the target cannot be used · 5 a file cannot be written · 6 a "
    "file cannot be read as a result · 124 timeout · 130 interrupted."
)
def feedrate(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find out why training waits for data, by measuring your own unmodified code."""


app.command()(bench)
app.command(context_settings=SCRIPT_ARGUMENTS)(tune)
app.command(context_settings=SCRIPT_ARGUMENTS)(leaks)
app.command()(report)
app.command(context_settings=CONTEXT)(run)
app.command()(apply)
app.command(context_settings=SCRIPT_ARGUMENTS)(doctor)
app.command()(explain)
app.command()(demo)


def main() -> None:
    """Run the command and exit with its code."""
    try:
        with refusals_explained():
            app()
    except FeedrateError as error:
        _explain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("feedrate: interrupted")
        sys.exit(Interrupted.exit_code)
    except SystemExit as end:
        if (
            end.code == Interrupted.exit_code
        ):  # Typer's way to end a command before it says anything
            say("feedrate: interrupted")
        raise


def _explain(error: FeedrateError) -> None:
    say(f"feedrate: {error}")
    if not error.details:
        return
    if any(word in ("-v", "--verbose") for word in sys.argv):
        say(f"\n{error.details.rstrip()}")
    else:
        say("  (the whole traceback: add -v)")
