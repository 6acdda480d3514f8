"""Which files reading items opens: Python tells of each `open`; what C code opens it does not."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

from feedrate.measure.examined import MOST_FILES

_CODE = (".py", ".pyc", ".so", ".pth", ".dll", ".pyd")
_NO_DATA = ("/proc/", "/dev/", "/sys/", "/etc/")


class OpenedFiles:
    """Keeps the first few data files that this process opens from now on.

    A hook cannot be taken away again: to be made in a probe.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._libraries = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[Any, ...]) -> None:
        if event != "open" or len(self.paths) >= MOST_FILES:
            return
        path = details[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or path.endswith(_CODE) or _writes(details):
            return
        try:
            whole = os.path.abspath(path)  # noqa: PTH100  # a Path is not worth its time here
        except OSError:  # the working directory is gone
            return
        if whole.startswith((*_NO_DATA, *self._libraries)) or whole in self.paths:
            return
        self.paths.append(whole)

    def found(self) -> tuple[str, ...]:
        """Return those of them that are ordinary files."""
        return tuple(path for path in self.paths if _is_file(path))


def _writes(details: tuple[Any, ...]) -> bool:
    flags = details[2] if len(details) > 2 and isinstance(details[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return False
