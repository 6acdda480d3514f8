"""feedrate: why training waits for data, and what to change.

Importing this package imports neither torch nor anything heavy; names are loaded when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from feedrate.version import __version__

if TYPE_CHECKING:
    from feedrate.api import BenchSuite, bench, load
    from feedrate.errors import FeedrateError
    from feedrate.loader.dataloader import DataLoader
    from feedrate.tune_api import TuneSuite, tune

__all__ = [
    "BenchSuite",
    "DataLoader",
    "FeedrateError",
    "TuneSuite",
    "__version__",
    "bench",
    "load",
    "tune",
]

_PLACES = {
    "BenchSuite": "feedrate.api",
    "DataLoader": "feedrate.loader.dataloader",
    "FeedrateError": "feedrate.errors",
    "TuneSuite": "feedrate.tune_api",
    "bench": "feedrate.api",
    "load": "feedrate.api",
    "tune": "feedrate.tune_api",
}


def __getattr__(name: str) -> Any:
    try:
        place = _PLACES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return sorted(__all__)
