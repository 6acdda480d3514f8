"""Temporary folders of a child and its workers, which are gone however these end.

The keeper outlives both. It and the child have this module from before they part, and with it one
token that is in the name of every such folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_TOKEN = os.urandom(8).hex()


def make_scratch(purpose: str) -> Path:
    """Make an empty folder; whoever makes it removes it, and else the keeper does.

    Not in a process that was started anew (spawn, forkserver): it has another token.
    """
    return Path(tempfile.mkdtemp(prefix=f"feedrate-{purpose}-{_TOKEN}-"))


def remove_scratch() -> None:
    """Remove what folders of this token are left."""
    for folder in Path(tempfile.gettempdir()).glob(f"feedrate-*-{_TOKEN}-*"):
        shutil.rmtree(folder, ignore_errors=True)
