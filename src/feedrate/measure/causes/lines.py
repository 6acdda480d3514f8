"""Which line of whose code allocated a block of memory, read from its traceback."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tracemalloc
from pathlib import Path
from typing import Literal

from feedrate.analysis.causes import Place

FRAMES = 12
"""So many frames lie between a user's line and the innermost one of a library that it calls. Each
makes the program slower, for it is taken down with every allocation."""

_Owner = Literal["own", "python", "library", "user"]
_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_FEEDRATE = Path(__file__).parents[2]
_OWN = tuple(str(_FEEDRATE / room) for room in ("measure", "host", "analysis"))
"""The rooms that measure; a user's code calls the others."""
_LOOPS = (str(Path(__file__).parent), str(_FEEDRATE / "measure" / "loop.py"))
"""What calls the loader in the user's place: who called that has nothing to do with it."""
_USERS = ("<stdin>", "<ipython")
"""Not "<string>": workers that are spawned begin there."""
_PYTHON = tuple(
    dict.fromkeys(
        path for name in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(name))
    )
)


class Lines:
    """Tells lines of the user's code from those of libraries, of Python, and our own."""

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._known: dict[tracemalloc.Traceback, Place | None] = {}

    def place_of(self, traceback: tracemalloc.Traceback) -> Place | None:
        """Return the user's innermost line, or a library's where none of the user's is there.

        ``None`` for memory of this pass itself.
        """
        try:
            return self._known[traceback]
        except KeyError:
            return self._known.setdefault(traceback, self._find(traceback))

    def _find(self, traceback: tracemalloc.Traceback) -> Place | None:
        fallback: Place | None = None
        for frame in reversed(traceback):
            owner = self._owner(frame.filename)
            if owner == "user":
                return frame.filename, frame.lineno
            if owner == "own":
                if fallback is None:
                    return None
                if frame.filename.startswith(_LOOPS):
                    break
            if owner == "library" and fallback is None:
                fallback = frame.filename, frame.lineno
        innermost = traceback[-1]
        return fallback or (innermost.filename, innermost.lineno)

    def is_worth_naming(self, place: Place) -> bool:
        """Tell whether a line says anything: none does in Python's, torch's or our own code."""
        file = place[0]
        if self._owner(file) == "library":
            return not file.startswith((_torch_folder(), str(_FEEDRATE)))
        return self._owner(file) == "user"

    def is_users(self, file: str) -> bool:
        """Tell whether a file is of the user's own code."""
        return self._owner(file) == "user"

    def _owner(self, file: str) -> _Owner:
        owner = self._owners.get(file)
        if owner is None:
            owner = self._owners[file] = _owner_of(file)
        return owner


def _owner_of(file: str) -> _Owner:
    if file.startswith(_OWN):
        return "own"
    if _PACKAGES.search(file) or file.startswith((_torch_folder(), str(_FEEDRATE))):
        return "library"
    if file.startswith(_PYTHON) or (file.startswith("<") and not file.startswith(_USERS)):
        return "python"
    return "user"


def _torch_folder() -> str:
    """Return where torch is, one that was built in its own sources too."""
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", None)
    return str(Path(file).parent) + os.sep if file else "/torch is not loaded/"
