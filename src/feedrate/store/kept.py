"""Results that no ``-o`` names: kept in the user's state folder, the newest of them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

from feedrate.errors import OutputError

KEPT_RESULTS = 20

_RESULT_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z-[\w-]+\.json")


def default_path(kind: str, started_at: datetime) -> Path:
    """Return where a result goes that no ``-o`` names, after making the folder and room in it.

    A time without a zone is local. The names sort by time.

    Raises:
        OutputError: the folder cannot be made.
    """
    folder = state_folder()
    if folder is None:
        raise OutputError("no home folder is known to keep the result in; name a file with -o")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made: {error.strerror}; name a file with -o"
        ) from error
    prune(KEPT_RESULTS - 1)
    moment = started_at.astimezone(timezone.utc)
    milliseconds = moment.microsecond // 1000
    return folder / f"{moment:%Y-%m-%dT%H%M%S}.{milliseconds:03d}Z-{kind}.json"


def latest() -> Path | None:
    """Return the newest result that was kept without ``-o``, or None."""
    return max(_kept_results(), key=_by_name, default=None)


def prune(keep: int = KEPT_RESULTS) -> None:
    """Remove all but the newest results that were kept without ``-o``; other files stay."""
    for path in sorted(_kept_results(), key=_by_name, reverse=True)[keep:]:
        with contextlib.suppress(OSError):
            path.unlink()


def state_folder() -> Path | None:
    """Return the folder of results that no ``-o`` names, or None where no home is known.

    As https://specifications.freedesktop.org/basedir-spec/ has it (a relative XDG_STATE_HOME is
    to be ignored), and on macOS and Windows their own place unless XDG_STATE_HOME is set.
    """
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    if named.is_absolute():
        return named / "feedrate"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "feedrate"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "feedrate"
    return home / ".local" / "state" / "feedrate"


def _kept_results() -> list[Path]:
    folder = state_folder()
    if folder is None:
        return []
    try:
        return [path for path in folder.iterdir() if _RESULT_NAME.fullmatch(path.name)]
    except OSError:
        return []


def _by_name(path: Path) -> str:
    return path.name
