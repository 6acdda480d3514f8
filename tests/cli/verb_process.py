"""A verb on a script of its own, as a real command that can be interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TARGETS = Path(__file__).parents[1] / "targets"

COMMAND = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
    from feedrate.cli.main import main
    main()
"""


@contextmanager
def verb(folder: Path, script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start ``feedrate ARGUMENTS train.py`` in a folder, with its temporary files in ``tmp``."""
    (folder / "train.py").write_text(textwrap.dedent(script))
    (folder / "tmp").mkdir()
    places = ("XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(COMMAND), *arguments, "train.py"],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(TARGETS)}
        | {name: str(folder / "tmp") for name in places},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def await_file(process: subprocess.Popen[str], path: Path) -> None:
    """Return once the script has made a file."""
    while not path.exists():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate())
