"""A script as Python runs it, its training loader with the settings that a tune has found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from feedrate.measure import running
from feedrate.settings import LoaderSettings

if TYPE_CHECKING:
    from feedrate.measure.uses import Use


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Which loader, counted as the script first iterates them, is to have which settings."""

    loader: int
    settings: LoaderSettings


def main(words: Sequence[str]) -> None:
    """Run ``FOUND script.py args...`` or ``FOUND -m module args...``, as `running.main` does.

    ``FOUND`` is a `Found` as JSON.
    """
    found = msgspec.json.decode(words[0], type=Found)
    running.main(words[1:], Settled(found))


class Settled(running.Steering):
    """Sets the settings each time that the loader is made, and leaves the others alone."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self._found = found
        self._where: str | None = None

    def _steer(self, loader: Any, use: Use) -> None:
        from feedrate.measure.configure import configure

        if use.number != self._found.loader:
            return
        configure(loader, self._found.settings)
        place = use.place
        if place.file is not None:
            self._where = f"line {place.line} in {Path(place.file).name}"

    def _told(self) -> list[str]:
        if self._where is None:
            return []
        return [f"num_workers={self._found.settings.num_workers} for the loader of {self._where}"]
