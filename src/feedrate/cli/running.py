"""The verb ``run``: a script on feedrate's loader, with no line of it changed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

import typer

from feedrate.errors import UsageError

_COMMAND = (
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"  # a script does not see the current folder
    "from feedrate.measure.running import main\n"
    "def told(error):\n"
    "    from feedrate.cli.explaining import explain_death\n"
    "    explain_death(error)\n"
    "main(sys.argv[1:], on_death=told)\n"
)

CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""What follows the script's name is the script's."""


def run(
    script: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT [ARGS]...", help="The script, and its own arguments."),
    ],
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is a module's name, as for python -m.")
    ] = False,
) -> None:
    """Run a training script on feedrate's loader, whose workers follow what the loop needs.

    Loaders of map-style datasets start with one worker and grow while training goes on, to the
    fewest that feed the loop as well as any number can. Everything else is as with python SCRIPT:
    input, output, signals and exit code, the batches, their order, and what the script draws at
    random. A dataset draws and fails as it does in workers. At the end one line on standard error
    says what the loaders came to; a script that dies of an error that feedrate explain knows is
    explained there.
    """
    place, *argv = script
    if not place or place.startswith("-"):
        raise UsageError(f"{place!r} is no script: write feedrate run script.py --its --own args")
    words = command(place, *argv, module=module)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":  # where exec would leave the shell with a process that it does not know
        sys.exit(subprocess.call(words))
    os.execv(words[0], words)


def command(place: str, *argv: str, module: bool = False) -> list[str]:
    """Return the command of the process that runs a script so."""
    return [sys.executable, "-c", _COMMAND, *(["-m"] if module else []), place, *argv]
