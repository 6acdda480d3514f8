"""The versions of what a target runs on."""

from __future__ import annotations

import contextlib
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Return those of torch, torchvision and NumPy that are installed."""
    found = {}
    for name in ("torch", "torchvision", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
