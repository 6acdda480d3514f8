"""After a tune: the script once more, to its end, with the settings that were found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NoReturn

import msgspec

from feedrate.analysis.tuned import read
from feedrate.measure.wire import ScriptSpec
from feedrate.records import Suite

_COMMAND = (
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"  # a script does not see the current folder
    "from feedrate.measure.continuing import main\n"
    "main(sys.argv[1:])\n"
)


def go_on(script: ScriptSpec, suite: Suite) -> NoReturn:
    """Become the process of the script; with its own settings where there is nothing to change."""
    words = command(script, suite)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":  # where exec would leave the shell with a process that it does not know
        sys.exit(subprocess.call(words))
    os.execv(words[0], words)


def command(script: ScriptSpec, suite: Suite) -> list[str]:
    """Return the command of the process that runs the script so."""
    place = [*(["-m"] if script.module else []), script.place, *script.argv]
    use, advised = read(suite).use, suite.recommendation
    if use is None or advised is None:
        return [sys.executable, *place]
    found = json.dumps({"loader": use.number, "settings": msgspec.to_builtins(advised.settings)})
    return [sys.executable, "-c", _COMMAND, found, *place]
