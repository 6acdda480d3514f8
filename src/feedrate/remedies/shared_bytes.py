"""Bytes that processes share: written once, read by all, gone with the last user.

On Linux they lie in memory without a name (memfd), which other processes open through ``/proc``;
elsewhere in a temporary file that the process which made it removes; or in a file of the user's.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import tempfile
import weakref
from collections.abc import Iterable
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

_MARK_BYTES = 16


class SharedBytes:
    """A mapping that can only be read, and that pickles by name.

    Args:
        parts: the bytes, in pieces.
        file: where to keep them; ``None`` for memory that ends with its last user.

    Raises:
        OSError: there is no room.
    """

    _owned: Any = None
    """What removes the temporary file, in the process that made it."""

    def __init__(self, parts: Iterable[bytes | memoryview], file: str | None = None) -> None:
        self._mark = secrets.token_bytes(_MARK_BYTES)
        self._file = file
        descriptor = self._make()
        try:
            with os.fdopen(os.dup(descriptor), "wb") as out:
                out.write(self._mark)
                out.writelines(parts)
            self._open(descriptor)
        except BaseException:
            os.close(descriptor)
            if self._owned is not None:
                self._owned()
            raise

    def _make(self) -> int:
        if self._file is not None:
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
            return os.memfd_create("feedrate_shared", os.MFD_CLOEXEC)
        descriptor, self._file = tempfile.mkstemp(prefix="feedrate_shared_")
        self._owned = weakref.finalize(self, _remove, self._file, os.getpid())
        return descriptor

    def _open(self, descriptor: int) -> None:
        """Map what a descriptor leads to; it is this object's from here on."""
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        self._closing = weakref.finalize(self, os.close, descriptor)
        self._closing.atexit = False

    @property
    def data(self) -> memoryview:
        """The bytes."""
        return memoryview(self._memory)[_MARK_BYTES:]

    def __reduce__(self) -> Any:
        name = self._file
        if name is None and get_spawning_popen() is not None:
            # The process that is being started gets it at once: this one may let go of it first.
            return _inherit, (DupFd(self._descriptor), self._mark)
        if name is None:
            name = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        return _attach, (name, self._mark, self._file)


def _attach(name: str, mark: bytes, file: str | None) -> SharedBytes:
    """Open what another process has made.

    Raises:
        OSError: that process has ended, or the file is another one by now.
    """
    shared = SharedBytes.__new__(SharedBytes)
    shared._mark, shared._file = mark, file
    descriptor = -1
    with contextlib.suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY)
    if descriptor < 0 or os.pread(descriptor, _MARK_BYTES, 0) != mark:
        if descriptor >= 0:
            os.close(descriptor)
        raise OSError(
            f"{name} does not hold the shared records any more: the process that shared them has "
            "to live until the others have opened them"
        )
    shared._open(descriptor)
    return shared


def _inherit(handed: Any, mark: bytes) -> SharedBytes:
    """Take over the descriptor that this process was started with."""
    shared = SharedBytes.__new__(SharedBytes)
    shared._mark, shared._file = mark, None
    shared._open(handed.detach())
    return shared


def _remove(file: str, maker: int) -> None:
    if os.getpid() == maker:
        Path(file).unlink(missing_ok=True)
