"""Doing something once the user's code has imported a module, and not before.

A script may set what a library reads while it is imported: the number of threads, the devices that
are to be seen. Were torch imported before the script begins, it would run otherwise than it does
without feedrate.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def after_import(name: str, action: Callable[[], None]) -> None:
    """Call ``action`` at the end of the first import of a top-level module; now if it was."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: takes what the others find, and watches it being run."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what another finder finds, with a loader that tells when it has run."""
        if fullname != self._name:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec, spec.loader, self)
                return spec
        return None

    def done(self) -> None:
        """Leave, and act."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._action()


class _Loader(importlib.abc.Loader):
    """Stands in for a module's loader while it is run, and puts that back before."""

    def __init__(
        self,
        spec: importlib.machinery.ModuleSpec,
        loader: importlib.abc.Loader,
        finder: _Finder,
    ) -> None:
        self._spec = spec
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module as its own loader does, then tell."""
        self._spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.done()
