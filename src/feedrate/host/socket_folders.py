"""Folders of multiprocessing's sockets that a killed process could not remove.

A worker that sends tensors listens on a socket in a folder of its own, ``pymp-…`` among the
temporary files, for whoever fetches their descriptors. It removes the folder when it ends by
itself; one that is killed leaves it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import tempfile
from pathlib import Path


def remove_abandoned_folders(since: float, folder: Path | None = None) -> list[str]:
    """Remove such folders on whose sockets nobody listens any more; return their names.

    Only a folder that was changed at ``since`` (seconds since the epoch) or later, by this user,
    and that holds nothing but sockets, at least one. An empty one may be about to be used.
    """
    candidates: dict[Path, list[Path]] = {}
    with contextlib.suppress(OSError):
        for path in (folder or Path(tempfile.gettempdir())).glob("pymp-*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if status.st_uid == os.getuid() and status.st_ctime >= since - 1:
                    candidates[path] = list(path.iterdir())
    # Only now: a socket's file is there from when it is bound on, and from then on it is listed.
    listening = _listening() if candidates else None
    if listening is None:
        return []
    removed = []
    for path, sockets in candidates.items():
        if sockets and not any(_is_used(each, listening) for each in sockets):
            with contextlib.suppress(OSError):
                for each in sockets:
                    each.unlink()
                path.rmdir()
                removed.append(path.name)
    return sorted(removed)


def _listening() -> set[str] | None:
    """Return the paths of all sockets of this network namespace, ``None`` where none are told."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    return {line.rpartition(" ")[2] for line in lines}


def _is_used(path: Path, listening: set[str]) -> bool:
    """Tell whether a file is anything else than a socket that refuses a connection.

    A container may share the temporary folder with another whose sockets are not listed here, so
    what is not listed is tried.
    """
    try:
        if str(path) in listening or not stat.S_ISSOCK(path.lstat().st_mode):
            return True
    except OSError:
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
