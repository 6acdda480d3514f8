"""A copy of the working folder in which a script may write what it likes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from feedrate import units
from feedrate.errors import OutputError, UsageError
from feedrate.records import LoaderUse, Run, Suite

_LEFT_OUT = {".git", "__pycache__"}
_SPARE = 0.9
"""The share of the free space that a copy may take."""

_REMOVER = 'read _; rm -rf -- "$1"; sleep 3; rm -rf -- "$1"'
"""Waits for the end of who started it. What a child that is ended then still writes is removed too:
its keeper gives it two seconds."""


class Copied(NamedTuple):
    """A folder and its copy. A file of the copy is told by the name that it has outside of it."""

    origin: Path
    copy: Path

    def told(self, suite: Suite) -> Suite:
        """Return the suite with the places of loaders in the folder and not in its copy."""
        benchmarks = tuple(
            replace(
                benchmark,
                runs=tuple(replace(run, loaders=self._loaders(run)) for run in benchmark.runs),
            )
            for benchmark in suite.benchmarks
        )
        advised = suite.recommendation
        if advised is not None:
            advised = replace(advised, file=self._outside(advised.file))
        return replace(suite, benchmarks=benchmarks, recommendation=advised)

    def _loaders(self, run: Run) -> tuple[LoaderUse, ...]:
        return tuple(replace(use, file=self._outside(use.file)) for use in run.loaders)

    def _outside(self, file: str | None) -> str | None:
        if file is None or not Path(file).is_relative_to(self.copy):
            return file
        return str(self.origin / Path(file).relative_to(self.copy))


@contextmanager
def copied_folder() -> Iterator[Copied]:
    """Work in a temporary copy of the current folder, removed afterwards.

    Links stay links; Git's folder, byte code and virtual environments are left out.

    Raises:
        UsageError: the folder is too large for the space that is free.
        OutputError: it cannot be copied.
    """
    origin = Path.cwd()
    with (
        tempfile.TemporaryDirectory(prefix="feedrate-dry-") as temporary,
        _removed_at_any_end(temporary),
    ):
        copy = Path(temporary).resolve() / origin.name
        size, free = _size(origin), shutil.disk_usage(temporary).free
        if size > _SPARE * free:
            raise UsageError(
                f"--dry copies {origin} ({units.size(size)}) to {temporary}, where "
                f"{units.size(free)} are free: start it in a smaller folder, or name another "
                "place with TMPDIR"
            )
        try:
            shutil.copytree(
                origin,
                copy,
                symlinks=True,
                # the temporary folder itself may lie in the folder that is copied
                ignore=lambda place, names: _ignored(place, names) | {Path(temporary).name},
            )
        except (OSError, shutil.Error) as error:
            raise OutputError(f"{origin} cannot be copied for --dry: {error}") from error
        os.chdir(copy)
        try:
            yield Copied(origin, copy)
        finally:
            os.chdir(origin)


@contextmanager
def _removed_at_any_end(folder: str) -> Iterator[None]:
    """Have the folder removed should this process be killed, by one that outlives it."""
    if os.name != "posix":
        yield
        return
    remover = subprocess.Popen(
        ["/bin/sh", "-c", _REMOVER, "sh", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for it
    )
    try:
        yield
    finally:
        remover.kill()
        remover.communicate()


def in_copy(path: str) -> str:
    """Return a path below the current folder relative to it, so that a copy's file is meant."""
    absolute = Path(path).resolve()
    folder = Path.cwd().resolve()
    return str(absolute.relative_to(folder)) if absolute.is_relative_to(folder) else str(absolute)


def _size(folder: Path) -> int:
    total = 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _ignored(place, folders)]
        for name in files:
            path = Path(place) / name
            if not path.is_symlink():
                total += path.stat().st_size
    return total


def _ignored(place: str, names: list[str]) -> set[str]:
    return {
        name for name in names if name in _LEFT_OUT or (Path(place) / name / "pyvenv.cfg").is_file()
    }
