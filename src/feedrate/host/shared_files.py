"""Shared-memory files of torch that a killed process could not unlink.

torch makes ``/dev/shm/torch_PID_…`` for every tensor that a worker sends and unlinks it at once;
a process that is killed in between leaves it, and its memory is gone until the next boot.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from stat import S_ISREG

SHARED_FOLDER = Path("/dev/shm")


def remove_abandoned(since: float, folder: Path = SHARED_FOLDER) -> list[str]:
    """Remove torch's files that nobody can use any more; return their names.

    Only a file that was made at ``since`` (seconds since the epoch) or later, by this user, in a
    process that has ended, and that no process has open or mapped. The last test is what makes it
    safe beside other programs: with torch's file_system strategy a file may outlive its maker.
    """
    candidates: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        # /proc names a file by its real place, and /dev/shm may be a link to another folder
        for path in folder.resolve().glob("torch_*"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                mine = status.st_uid == os.getuid() and status.st_ctime >= since - 1
                if mine and S_ISREG(status.st_mode) and not _is_alive(path.name.split("_")[1]):
                    candidates[str(path)] = path
    if candidates:
        _drop_used(candidates)
    for path in candidates.values():
        with contextlib.suppress(OSError):
            path.unlink()
    return sorted(path.name for path in candidates.values())


def _is_alive(maker: str) -> bool:
    """Tell whether the process in a file's name lives; an unreadable name counts as alive."""
    return not (maker.isascii() and maker.isdigit()) or Path(f"/proc/{maker}").exists()


def _drop_used(candidates: dict[str, Path]) -> None:
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for line in (process / "maps").read_text("utf-8", "replace").splitlines():
                candidates.pop(line.split(maxsplit=5)[-1], None)
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    candidates.pop(str(descriptor.readlink()), None)


def remove_files_of(pid: int, folder: Path = SHARED_FOLDER) -> None:
    """Remove what a process that was killed had made and not yet unlinked.

    With torch's file_descriptor strategy a file has a name for a moment only, so one that is left
    was never sent. The process must have ended.
    """
    with contextlib.suppress(OSError):
        # One pattern for all, since Python keeps what it has made of each.
        for path in folder.glob("torch_*"):
            if path.name.startswith(f"torch_{pid}_"):
                with contextlib.suppress(OSError):
                    path.unlink()
