"""Bytes that processes share: written once, read by all, gone with the last user.

On Linux they lie in memory without a name (memfd), which other processes open through ``/proc``; on
Windows in memory with a name; elsewhere in a temporary file that the process which made it removes;
or in a file of the user's.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import secrets
import sys
import tempfile
import weakref
from collections.abc import Iterable
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any

_MARK_BYTES = 16
_PREFIX = "feedrate_shared_"
_WINDOWS = sys.platform == "win32"


class SharedBytes:
    """A mapping that can only be read, and that pickles by name.

    Args:
        parts: the bytes, in pieces.
        file: where to keep them; ``None`` for memory that ends with its last user. A file that is
            there is replaced, not written to: who has mapped it keeps what it held.

    Raises:
        OSError: there is no room, or the file cannot be replaced; on Windows also while another
            process has it open.
    """

    _file: str | None = None
    _tag: str | None = None
    """What the memory is called, on Windows."""
    _descriptor = -1
    _closing: Any = None
    """What closes the descriptor."""
    _owned: Any = None
    """What removes the temporary file, in the process that made it."""

    def __init__(
        self, parts: Iterable[bytes | memoryview], file: str | os.PathLike[str] | None = None
    ) -> None:
        self._mark = secrets.token_bytes(_MARK_BYTES)
        pieces = itertools.chain((self._mark,), parts)
        try:
            if file is not None:
                self._replace(Path(file).resolve(), pieces)
            elif _WINDOWS:
                self._make_tagged(pieces)
            elif hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
                self._make_nameless(pieces)
            else:
                self._make_temporary(pieces)
        except BaseException:
            for end in (self._closing, self._owned):
                if end is not None:
                    end()
            raise

    def _replace(self, file: Path, pieces: Iterable[bytes | memoryview]) -> None:
        """Write beside the file and put that in its place: others may have mapped what is there."""
        self._file = str(file)
        if file.exists() and not file.is_file():
            raise OSError(f"{file} is no plain file: pass the path of one, or of none yet")
        draft = file.with_name(_PREFIX + secrets.token_hex(8))
        nameless = _nameless_file(file.parent)
        try:
            if (
                nameless is not None
            ):  # nothing is left behind where this process is killed meanwhile
                with os.fdopen(nameless, "wb") as out:
                    out.writelines(pieces)
                    out.flush()
                    name = f"/proc/self/fd/{nameless}"
                    self._open(name)
                    # with a folder's descriptor the link is followed, which Python leaves out else
                    os.link(name, draft, src_dir_fd=nameless)
                draft.replace(file)
                return
            with draft.open("xb") as out:
                out.writelines(pieces)
            if _WINDOWS:  # where nothing that is open can be renamed
                draft.replace(file)
                self._open(self._file)
            else:  # opened first: another process may replace the file in its turn
                self._open(str(draft))
                draft.replace(file)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def _make_tagged(self, pieces: Iterable[bytes | memoryview]) -> None:
        tag = _PREFIX + secrets.token_hex(16)
        with tempfile.TemporaryFile() as draft:  # memory with a name cannot grow
            draft.writelines(pieces)
            size = draft.tell()
            draft.seek(0)
            memory = _memory_with_name(tag, size, mmap.ACCESS_WRITE)
            draft.readinto(memory)
        self._open_tagged(tag, size)

    def _make_nameless(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._hold(os.memfd_create(_PREFIX, os.MFD_CLOEXEC))
        with os.fdopen(self._descriptor, "wb", closefd=False) as out:
            out.writelines(pieces)
        self._map()

    def _make_temporary(self, pieces: Iterable[bytes | memoryview]) -> None:
        descriptor, self._file = tempfile.mkstemp(prefix=_PREFIX)
        self._owned = weakref.finalize(self, _remove, self._file, os.getpid())
        with os.fdopen(descriptor, "wb") as out:
            out.writelines(pieces)
        self._open(self._file)

    def _open(self, name: str) -> None:
        self._hold(os.open(name, os.O_RDONLY))
        self._map()

    def _hold(self, descriptor: int) -> None:
        """Take a descriptor, which is this object's from here on."""
        self._descriptor = descriptor
        self._closing = weakref.finalize(self, os.close, descriptor)
        self._closing.atexit = False

    def _map(self) -> None:
        self._memory: Any = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)

    def _open_tagged(self, tag: str, size: int) -> None:
        # A name that nobody uses any more gives new memory, of zeros: the mark tells.
        self._memory = _memory_with_name(tag, size, mmap.ACCESS_READ)
        self._tag = tag

    @property
    def data(self) -> memoryview:
        """The bytes."""
        return memoryview(self._memory)[_MARK_BYTES:]

    def __reduce__(self) -> Any:
        if self._tag is not None:
            return _attach_tagged, (self._tag, len(self._memory), self._mark)
        if get_spawning_popen() is not None and hasattr(reduction, "DupFd"):
            # The process that is being started gets it at once: this one may let go of it first,
            # and a file may have been replaced.
            return _inherit, (reduction.DupFd(self._descriptor), self._mark, self._file)
        names = [] if self._file is None else [self._file]
        if not _WINDOWS:
            names.append(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        return _attach, (names, self._mark, self._file)


def _nameless_file(folder: Path) -> int | None:
    """Open a file in a folder that gets its name later; ``None`` where there is no such thing."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    with contextlib.suppress(OSError):  # not every file system has them
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    return None


def _attach(names: list[str], mark: bytes, file: str | None) -> SharedBytes:
    """Open what another process has made, by the first name that leads to it.

    Raises:
        OSError: none does, as that process has ended, or let go of it, or the file was replaced.
    """
    for name in names:
        shared = _opened(name, mark)
        if shared is not None:
            shared._file = file
            return shared
    raise _gone(names[0])


def _opened(name: str, mark: bytes) -> SharedBytes | None:
    shared = _blank(mark)
    with contextlib.suppress(OSError, ValueError):  # no such file, or an empty one
        # A descriptor may be another one by now: a pipe, say, and to open that would wait.
        if Path(name).is_file():
            shared._open(name)
            if shared._memory[:_MARK_BYTES] == mark:
                return shared
    return None


def _attach_tagged(tag: str, size: int, mark: bytes) -> SharedBytes:
    """Open memory by its name.

    Raises:
        OSError: nobody holds it any more.
    """
    shared = _blank(mark)
    shared._open_tagged(tag, size)
    if shared._memory[:_MARK_BYTES] != mark:
        raise _gone(tag)
    return shared


def _memory_with_name(tag: str, size: int, access: int) -> Any:
    options: Any = {"tagname": tag}  # an argument on Windows alone
    return mmap.mmap(-1, size, access=access, **options)


def _inherit(handed: Any, mark: bytes, file: str | None) -> SharedBytes:
    """Take over the descriptor that this process was started with."""
    shared = _blank(mark)
    shared._file = file
    shared._hold(handed.detach())
    shared._map()
    return shared


def _blank(mark: bytes) -> SharedBytes:
    shared = SharedBytes.__new__(SharedBytes)
    shared._mark = mark
    return shared


def _gone(name: str) -> OSError:
    return OSError(
        f"{name} does not hold the shared records any more: the process that shared them has "
        "to live until the others have opened them, or the file to stay as it is until then"
    )


def _remove(file: str, maker: int) -> None:
    if os.getpid() == maker:
        Path(file).unlink(missing_ok=True)
