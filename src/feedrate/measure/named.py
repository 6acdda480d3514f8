"""Targets as they are named on a command line, and what is wrong with a name before any import.

A child takes seconds to import torch before it could tell a typo. What is claimed here is certain;
where a file makes its names as it runs, nothing is claimed.
"""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from feedrate.errors import TargetError

FORMS = "targets are written file.py:name or package.module:name"

_MOST_OFFERED = 8
_MAKE_NAMES = frozenset(("globals", "locals", "vars", "exec", "eval"))
"""What a file defines that uses any of these is not all written in it."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def split_target(text: str) -> tuple[str, str]:
    """Split ``file.py:name`` or ``package.module:name``.

    Raises:
        TargetError: it has another form.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise TargetError(
            f"cannot read the target {text!r}: write file.py:name or package.module:name, "
            "where name is a function that returns a DataLoader, a Dataset or (loader, step)"
        )
    return place, name


def foresee(target: str, step: str | None = None) -> None:
    """Find out without importing anything that a named target cannot be there.

    Raises:
        TargetError: it has another form; there is no such file or module; or the file defines no
            such name.
    """
    place, name = split_target(target)
    if not place.endswith(".py"):
        _foresee_module(place)
        return
    path = Path(place)
    if not path.is_file():
        hint = _meant(path.name, (each.name for each in path.parent.glob("*.py")))
        raise TargetError(f"there is no file {place}{hint or f'; {FORMS}'}")
    defined = defined_names(path)
    if defined is None:
        return
    for wanted in filter(None, (name, step)):
        if wanted not in defined:
            raise TargetError(
                missing(place, wanted, [n for n, is_own in defined.items() if is_own])
            )


def missing(place: str, name: str, offered: Iterable[str]) -> str:
    """Return the sentence for a name that a module does not have."""
    names = sorted(offered)
    hint = _meant(name, names)
    if not hint and names:
        hint = f"; it defines {', '.join(names[:_MOST_OFFERED])}"
    return f"{place} has no {name!r}{hint}"


def defined_names(path: Path) -> dict[str, bool] | None:
    """Return the names that a file has once it is imported, and whether it defines each itself.

    ``None`` where that is not known without running it, or where it cannot be read as Python.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the child says what is wrong with it
    if any(_makes_names(node) for node in ast.walk(tree)):
        return None
    names: dict[str, bool] = {}
    for node in _of_module(tree):
        for name in _bound(node):
            names[name] = names.get(name, False) or isinstance(node, _SCOPES)
    return names


def _makes_names(node: ast.AST) -> bool:
    """Tell whether a node may give the module names that are not written in its file."""
    if isinstance(node, ast.ImportFrom):
        names = {alias.name for alias in node.names}
        return "*" in names or (node.module == "sys" and "modules" in names)
    if isinstance(node, ast.Name):
        return node.id in _MAKE_NAMES
    if isinstance(node, ast.Attribute):
        of_sys = isinstance(node.value, ast.Name) and node.value.id == "sys"
        return node.attr in ("__dict__", "f_globals") or (node.attr == "modules" and of_sys)
    return isinstance(node, ast.FunctionDef) and node.name == "__getattr__"


def _of_module(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a module is imported; of functions what may bind names outside them."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, _SCOPES):
            outwards = (ast.Global, ast.NamedExpr)  # the latter in a default value
            yield from (each for each in ast.walk(node) if isinstance(each, outwards))
        else:
            yield from _of_module(node)


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives a value."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id
    elif isinstance(node, ast.Global):
        yield from node.names
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _foresee_module(place: str) -> None:
    top = place.partition(".")[0]
    if not top.isidentifier() or _may_be_found(top):
        return
    here = [path.stem for path in Path.cwd().glob("*.py")]
    folders = [path.parent.name for path in Path.cwd().glob("*/__init__.py")]
    hint = _meant(top, [*here, *folders])
    raise TargetError(f"there is no module {place} that can be imported{hint or f'; {FORMS}'}")


def _may_be_found(top: str) -> bool:
    """Tell whether a top-level module could be imported; looking for it imports nothing."""
    try:
        known = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return True  # not known
    if known is not None:
        return True
    return importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd()), *sys.path]) is not None


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(set(known)), n=1)
    return f": did you mean {close[0]}?" if close else ""
