"""The user's source file: read whole, and replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from feedrate.errors import OutputError, TargetError


def read(path: Path) -> bytes:
    """Return a source file's bytes.

    Raises:
        TargetError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TargetError(f"there is no file {path}; name the one that makes the loader") from None
    except OSError as error:
        raise TargetError(
            f"{path} cannot be read ({error.strerror}); name the file that makes the loader"
        ) from error


def replace(path: Path, before: bytes, after: bytes) -> None:
    """Replace a file's content; where ``path`` is a link, that of the file it leads to.

    Permissions stay, and the owner where that is allowed. A crash leaves the old content or the
    new one.

    Raises:
        OutputError: it cannot be written, or no longer holds ``before``.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.read_bytes() != before:
            raise OutputError(f"{path} was changed meanwhile and is left as it is: run it again")
        if not os.access(target, os.W_OK):
            raise OutputError(f"{path} is read-only: make it writable, or apply the diff by hand")
        _replace(target, after)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror}) and is left as it was: apply the diff "
            "by hand"
        ) from error


def _replace(target: Path, data: bytes) -> None:
    known = target.stat()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown"):
            with contextlib.suppress(OSError):
                os.chown(temporary, known.st_uid, known.st_gid)
        temporary.chmod(stat.S_IMODE(known.st_mode))  # last, for a new owner resets some of it
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
