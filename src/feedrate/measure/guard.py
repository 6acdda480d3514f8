"""Whether workers that are not forked would run the script again, and train in it themselves."""

from __future__ import annotations

import ast
import sys
from types import ModuleType
from typing import Any

from feedrate.measure.configure import default_start_method

_SENTENCE = (
    "workers cannot be tried: with the start method {method} each of them runs the script again, "
    'so put what the script does below if __name__ == "__main__": first'
)


def missing_guard(loader: Any) -> str | None:
    """Return why the loader must get no workers; ``None`` where nothing is against it.

    multiprocessing imports the main module in each process that is spawned, or forked by a server.
    A script that trains without workers needs no guard for that; given one, it would train in the
    worker, and no batch would ever come.
    """
    context = loader.multiprocessing_context
    method = default_start_method() if context is None else str(context.get_start_method())
    if method == "fork" or not _is_run_again(sys.modules.get("__main__")):
        return None
    return _SENTENCE.format(method=method)


def has_guard(source: str) -> bool:
    """Tell whether a statement at the top of a module asks for its name; True of no Python."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return True
    tests = (each.test for each in statements if isinstance(each, ast.If))
    return any(
        isinstance(node, ast.Name) and node.id == "__name__"
        for test in tests
        for node in ast.walk(test)
    )


def _is_run_again(main: ModuleType | None) -> bool:
    """Tell whether multiprocessing would import the main module, and that would be no mere import.

    It leaves out a package's ``__main__``, and what has no file.
    """
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if file is None or (spec is not None and spec.name.rpartition(".")[2] == "__main__"):
        return False
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            return not has_guard(stream.read())
    except OSError:
        return False
