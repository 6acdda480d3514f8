"""Where a loader was made: the line of the user's own code, found on the stack."""

from __future__ import annotations

from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from feedrate.measure.blame import Frame, is_own

_LIBRARIES = frozenset(
    {"torch", "feedrate", "lightning", "pytorch_lightning", "lightning_fabric", "accelerate"}
    | {"transformers", "torchdata"}
)
"""Known by name too: one that is being worked on lies outside of site-packages."""


class Place(NamedTuple):
    """``file`` and ``line`` are ``None`` where a library made the loader, and not the user's code.

    ``path`` is the whole way there, file and line of every caller: by it two loaders that one
    function of the user's made for two callers are told apart, and one that is made anew at each
    turn of a loop is known again.
    """

    file: str | None = None
    line: int | None = None
    path: tuple[tuple[str, int], ...] = ()


def place_of_making(loader: object, frame: FrameType | None) -> Place:
    """Return where the loader was made, given the frame that called its ``__init__``.

    The ``__init__`` methods of its own classes are passed over: what is looked for is the call.
    """
    path: list[tuple[str, int]] = []
    direct: FrameType | None = None
    while frame is not None:
        path.append((frame.f_code.co_filename, frame.f_lineno))
        if direct is None and not _is_own_init(loader, frame) and not _is_in(frame, {"torch"}):
            direct = frame
        frame = frame.f_back
    if direct is None or not _is_users(direct):
        return Place(path=tuple(path))
    file = direct.f_code.co_filename
    file = file if file.startswith("<") else str(Path(file).absolute())
    return Place(file, direct.f_lineno, tuple(path))


def _is_own_init(loader: object, frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name != "__init__" or not code.co_argcount:
        return False
    return frame.f_locals.get(code.co_varnames[0]) is loader


def _is_users(frame: FrameType) -> bool:
    code = frame.f_code
    shown = Frame(code.co_filename, frame.f_lineno, code.co_name, "")
    return is_own(shown) and not _is_in(frame, _LIBRARIES)


def _is_in(frame: FrameType, packages: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages
