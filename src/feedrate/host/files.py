"""Reading the system's text files, through a protocol so that tests need no such system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol


class ProcReader(Protocol):
    """Reads files of ``/proc`` and ``/sys``. Neither method raises for a path that is not there."""

    def read(self, path: str) -> str | None:
        """Return the file's text, or ``None`` where it is missing or may not be read."""

    def listdir(self, path: str) -> list[str] | None:
        """Return the names in a directory, or ``None`` where it is missing or may not be read."""


class SystemReader:
    """Reads this machine's files."""

    def read(self, path: str) -> str | None:
        """Return the file's text, or ``None`` where it is missing or may not be read."""
        try:
            with open(path, "rb") as file:  # noqa: PTH123  (hot path: pathlib doubles its cost)
                return file.read().decode("utf-8", "replace")
        except OSError:
            return None

    def listdir(self, path: str) -> list[str] | None:
        """Return the names in a directory, or ``None`` where it is missing or may not be read."""
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries]
        except OSError:
            return None


class FakeReader:
    """Reads from a mapping of paths to texts; its directories are those that the paths imply."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)

    def read(self, path: str) -> str | None:
        """Return the text stored under the path."""
        return self.files.get(path)

    def listdir(self, path: str) -> list[str] | None:
        """Return the next part of each stored path that lies below this one."""
        start = path.rstrip("/") + "/"
        names = {name[len(start) :].split("/")[0] for name in self.files if name.startswith(start)}
        return sorted(names - {""}) if names else None
