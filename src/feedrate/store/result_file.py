"""A file that is opened before measuring and always holds a whole document."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from pathlib import Path
from types import TracebackType

from feedrate.errors import OutputError, UsageError
from feedrate.records import Suite
from feedrate.store.document import encode

_TEMPORARY_NAME = re.compile(r"\.feedrate-(\d+)-\d+\.tmp")
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
_UNNAMED_FILE: int = getattr(os, "O_TMPFILE", 0)  # Linux alone has it

_numbers = itertools.count()


def save(suite: Suite, path: str | os.PathLike[str], force: bool = False) -> None:
    """Write one suite to one file. See `ResultFile` for a file that is saved repeatedly.

    Raises:
        UsageError: the file exists and ``force`` is false.
        OutputError: it cannot be written.
    """
    with ResultFile.open(path, force) as file:
        file.save(suite)


class ResultFile:
    """The file of one command: opened before the first run, saved after each.

    A crash at any moment leaves the earlier content or the new one, never a part. Until the first
    save that is no file at all, or with ``force`` the file that was there.
    """

    def __init__(self, path: Path, target: Path, replaces: bool) -> None:
        self.path = path
        self.saved = False
        self._target = target
        self._replaces = replaces
        self._temporary = target.parent / f".feedrate-{os.getpid()}-{next(_numbers)}.tmp"

    @classmethod
    def open(cls, path: str | os.PathLike[str], force: bool = False) -> ResultFile:
        """Check that the file can be written; nothing is written yet.

        Raises:
            UsageError: the file exists and ``force`` is false.
            OutputError: the folder is missing or cannot be written, or the path is no file.
        """
        path = Path(path)
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = None
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}; name another file"
            ) from error
        if mode is not None and stat.S_ISDIR(mode):
            raise OutputError(f"{path} is a folder; name a file in it: {path / 'result.json'}")
        if mode is not None and not stat.S_ISREG(mode):
            raise OutputError(f"{path} is not a regular file; name another")
        if mode is not None and not force:
            raise UsageError(f"{path} exists; name another file, or add --force to replace it")
        # Absolute, for the user's code may change folder; and a link stays a link.
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise OutputError(f"there is no folder {path.parent}; make it, or name another file")
        file = cls(path, target, replaces=force)
        file._probe()
        return file

    def save(self, suite: Suite) -> None:
        """Replace the file's content.

        Raises:
            OutputError: it could not be written; the earlier content is still there, and a later
                save may succeed.
        """
        data = encode(suite)
        try:
            self._write(data)
        except FileExistsError as error:
            raise OutputError(
                f"{self.path} was made by something else meanwhile and is left as it is; "
                "name another file, or add --force to replace it"
            ) from error
        except OSError as error:
            kept = "what was saved before is still there" if self.saved else "nothing is saved yet"
            raise OutputError(
                f"{self.path} cannot be written: {error.strerror}; {kept}: "
                "make room, or name another file"
            ) from error
        finally:
            self.discard()
        self.saved = True

    def discard(self) -> None:
        """Remove what an unfinished save left; what was saved stays."""
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def _probe(self) -> None:
        """Find out now, not after an hour of measuring, that nothing can be written here."""
        _remove_abandoned(self._target.parent)
        self.discard()  # an earlier process of the same number, as in a container, may have left it
        try:
            descriptor = _open_unnamed(self._target.parent)
            if descriptor is None:
                descriptor = os.open(self._temporary, _NEW_FILE, 0o666)
            os.close(descriptor)
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written: {error.strerror}; name a file in another folder"
            ) from error
        finally:
            self.discard()

    def _write(self, data: bytes) -> None:
        descriptor = _open_unnamed(self._target.parent)
        if descriptor is not None:
            try:
                self._write_unnamed(descriptor, data)
                return
            except FileExistsError:
                raise
            except OSError:
                self.discard()  # then the plain way, whose error is the one to report
            finally:
                os.close(descriptor)
        self._write_named(data)

    def _write_unnamed(self, descriptor: int, data: bytes) -> None:
        """Write to a file without a name, which a killed process cannot leave behind.

        It can be given a new name but not an existing one, so replacing takes two steps; what a
        kill between them leaves is removed when a file is next opened in the folder.
        """
        _write_through(descriptor, data)
        if not self._may_replace():
            _name(descriptor, self._target)
            return
        _name(descriptor, self._temporary)
        self._temporary.replace(self._target)

    def _write_named(self, data: bytes) -> None:
        descriptor = os.open(self._temporary, _NEW_FILE, 0o666)
        try:
            _write_through(descriptor, data)
        finally:
            os.close(descriptor)
        if not self._may_replace() and os.path.lexists(self._target):
            raise FileExistsError
        self._temporary.replace(self._target)

    def _may_replace(self) -> bool:
        return self._replaces or self.saved


def _open_unnamed(folder: Path) -> int | None:
    """Open a file without a name, or return None where system or file system has none."""
    if not _UNNAMED_FILE:
        return None
    try:
        return os.open(folder, _UNNAMED_FILE | os.O_WRONLY, 0o666)
    except OSError:
        return None


def _name(descriptor: int, path: Path) -> None:
    # A folder's descriptor is given only because without one os.link does not follow the link
    # under /proc, as it has to here; both paths are absolute, so it is not used.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _write_through(descriptor: int, data: bytes) -> None:
    """Write all bytes and have them on the disk before the name points to them."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed while they saved."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            match = _TEMPORARY_NAME.fullmatch(path.name)
            if match and not _is_running(int(match[1])):
                with contextlib.suppress(OSError):
                    path.unlink()


def _is_running(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)
