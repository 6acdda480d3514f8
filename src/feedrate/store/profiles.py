"""What earlier tunes found, kept in the user's cache folder so that they need only be confirmed.

A profile is the suite of a tune under a name that stands for host, target, arguments and versions:
what may have changed the answer changes the name. It is a cache: a profile that is missing, damaged
or cannot be written costs a search and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from feedrate.errors import FeedrateError
from feedrate.records import Suite
from feedrate.store.document import load
from feedrate.store.result_file import save

KEPT_PROFILES = 50


def profile_key(facts: Mapping[str, object]) -> str:
    """Return the name of the profile that these facts belong to; their order does not matter.

    Raises:
        TypeError: a fact is nothing that JSON has.
    """
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def content_hash(path: str | os.PathLike[str]) -> str | None:
    """Return the SHA-256 of a file's content; ``None`` where it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def load_profile(key: str) -> Suite | None:
    """Return the suite that was kept under a key, ``None`` where there is none that can be read."""
    path = _path(key)
    if path is None or not path.is_file():
        return None
    try:
        return load(path)
    except FeedrateError:
        return None


def save_profile(key: str, suite: Suite) -> None:
    """Keep a suite under a key, and the newest `KEPT_PROFILES` of all; failures are passed over."""
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(FeedrateError, OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save(suite, path, force=True)
        _prune(path.parent)


def cache_folder() -> Path | None:
    """Return the folder of profiles, or None where no home is known.

    As https://specifications.freedesktop.org/basedir-spec/ has it (a relative XDG_CACHE_HOME is to
    be ignored), and on macOS and Windows their own place unless XDG_CACHE_HOME is set.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "feedrate" / "profiles"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return base / "feedrate" / "profiles"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "feedrate" / "profiles"
    return home / ".cache" / "feedrate" / "profiles"


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return folder / f"{key}.json" if folder is not None else None


def _prune(folder: Path) -> None:
    kept = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[KEPT_PROFILES:]:
        path.unlink(missing_ok=True)
