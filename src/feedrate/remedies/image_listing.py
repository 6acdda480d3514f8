"""Which image files there are, with what belongs to each: from a folder or from a table."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from feedrate.errors import UsageError

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")

NO_CLASSES = frozenset(
    {
        "__MACOSX", "__pycache__", "lost+found", "@eaDir", "$RECYCLE.BIN",
        "System Volume Information",
    }
)  # fmt: skip
"""Folders that archives, file systems and other programs make; some with pictures of their own."""

Row = tuple[str, Any]


def list_folder(folder: str | os.PathLike[str]) -> tuple[list[Row], tuple[str, ...]]:
    """Return the paths below a folder with their classes' numbers, and the classes' names.

    Each folder directly below is a class, in alphabetical order, its images at any depth; hidden
    folders and files, and `NO_CLASSES`, are left out. Where no folder has images, those directly
    in this one have no classes: all targets are 0.

    Raises:
        UsageError: there is no such folder, or no image in it, or none in one of several classes:
            without it the others' numbers would not be those of another folder that has them all.
    """
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}: pass the one that holds the images")
    names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    found = {name: list(_below(root / name)) for name in names if not _is_hidden(name)}
    rows = [(path, number) for number, paths in enumerate(found.values()) for path in paths]
    empty = [name for name, paths in found.items() if not paths]
    if rows and empty:
        raise UsageError(_without_images(root, empty))
    if rows:
        return rows, tuple(found)
    rows = [(str(path), 0) for path in sorted(root.iterdir()) if _is_image(path.name)]
    if not rows:
        raise UsageError(
            f"there is no image in {root} ({', '.join(ENDINGS)}): pass the folder that holds them, "
            "or one with a folder for each class"
        )
    return rows, ()


def _without_images(root: Path, empty: list[str]) -> str:
    more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
    return (
        f"there is no image ({', '.join(ENDINGS)}) in {', '.join(empty[:3])}{more} of {root}, and "
        "without that the classes after it would have other numbers than elsewhere: add images; or "
        "pass paths and numbers to ImageFiles.from_table; or, if it is no class, remove it, or let "
        "its name begin with a dot"
    )


def list_table(
    table: str | os.PathLike[str] | Iterable[Any],
    path: str,
    target: str | None,
    root: str | os.PathLike[str] | None,
) -> list[Row]:
    """Return the paths and targets of a table.

    Args:
        table: a CSV file (.tsv: separated by tabs) with a line of names; or rows, each a pair of
            path and target, or a mapping.
        path, target: the columns' names, for a file or mappings; a target of ``None`` is 0
            throughout.
        root: what relative paths are relative to; for a file its own folder if left out.

    Raises:
        UsageError: the table is empty, or lacks a column.
    """
    if isinstance(table, str | os.PathLike):
        name = os.fspath(table)
        root = Path(name).parent if root is None else root
        with open(name, newline="", encoding="utf-8-sig") as file:  # noqa: PTH123
            reader = csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ",")
            rows = [_row(each, path, target) for each in reader]
    else:
        name = "the table"
        rows = [_row(each, path, target) for each in table]
    if not rows:
        raise UsageError(f"{name} has no rows: pass at least one image")
    return [(each if root is None else os.path.join(root, each), value) for each, value in rows]  # noqa: PTH118


def _row(row: Any, path: str, target: str | None) -> Row:
    if not isinstance(row, Mapping):
        place, value = row
        return os.fspath(place), value
    for column in (path, target):
        if column is not None and row.get(column) is None:
            names = ", ".join(map(str, row))
            raise UsageError(
                f"a row has no {column!r}, only {names}: name the columns with path= and target="
            )
    return os.fspath(row[path]), row[target] if target is not None else 0


def _below(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            if _is_image(name):
                yield os.path.join(place, name)  # noqa: PTH118 - a million of them


def _is_hidden(folder: str) -> bool:
    return folder.startswith(".") or folder in NO_CLASSES


def _is_image(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.startswith(".")
