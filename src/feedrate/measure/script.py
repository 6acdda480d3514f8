"""Running a script as ``__main__``, as ``python script.py`` and ``python -m module`` do."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

from feedrate.errors import TargetError
from feedrate.measure.wire import ScriptSpec


def run_script(spec: ScriptSpec) -> None:
    """Run a script to its end; whatever it raises passes through, `SystemExit` too.

    ``__main__`` is the script's own module from here on and stays it: workers that are spawned
    look there for the file, and what was pickled for its classes. ``sys.argv`` and the first entry
    of ``sys.path`` are as Python sets them.

    Raises:
        TargetError: there is no such script or module.
        SyntaxError: it is not Python.
    """
    if spec.module:
        code, main = _find_module(spec)
    else:
        code, main = _find_file(spec)
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _find_file(spec: ScriptSpec) -> tuple[CodeType, ModuleType]:
    path = Path(spec.place).absolute()
    if path.is_dir():
        raise TargetError(f"{spec.place} is a folder: name the script in it")
    try:
        with io.open_code(str(path)) as file:
            source = file.read()
    except OSError as error:
        raise TargetError(f"{spec.place} cannot be read ({error.strerror})") from None
    main = ModuleType("__main__")
    main.__file__ = str(path)
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", str(path))
    vars(main)["__cached__"] = None
    sys.argv = [spec.place, *spec.argv]
    _put_first(str(path.resolve().parent))
    return compile(source, str(path), "exec", dont_inherit=True), main


def _find_module(spec: ScriptSpec) -> tuple[CodeType, ModuleType]:
    sys.argv = ["-m", *spec.argv]  # while packages above it are imported
    _put_first(str(Path.cwd()))
    found = _spec_of(spec.place)
    if found is not None and found.submodule_search_locations is not None:
        found = _spec_of(f"{spec.place}.__main__")
    loader = found.loader if found is not None else None
    if found is None or not hasattr(loader, "get_code"):
        raise TargetError(f"there is no module {spec.place} that can be run as python -m does")
    code = cast(Any, loader).get_code(found.name)
    if code is None:
        raise TargetError(f"the module {spec.place} has no Python code to run")
    main = ModuleType("__main__")
    main.__spec__ = found
    main.__loader__ = loader
    main.__package__ = found.parent
    main.__file__ = found.origin
    vars(main)["__cached__"] = found.cached
    sys.argv[0] = found.origin or spec.place
    return cast(CodeType, code), main


def _spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # What the packages above it import in vain is the user's own error.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise
    except ValueError:
        return None


def _put_first(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path.insert(0, folder)
