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
    from feedrate.leak_api import LeakSuite, check_leaks
    from feedrate.loader.dataloader import DataLoader
    from feedrate.remedies.image_files import ImageFiles
    from feedrate.remedies.image_loader import image_loader
    from feedrate.remedies.memory_guard import MemoryGuard
    from feedrate.remedies.seeds import seed_worker
    from feedrate.remedies.shared_dict import SharedDict
    from feedrate.remedies.shared_list import SharedList
    from feedrate.tune_api import TuneSuite, tune

__all__ = [
    "BenchSuite",
    "DataLoader",
    "FeedrateError",
    "ImageFiles",
    "LeakSuite",
    "MemoryGuard",
    "SharedDict",
    "SharedList",
    "TuneSuite",
    "__version__",
    "bench",
    "check_leaks",
    "image_loader",
    "load",
    "seed_worker",
    "tune",
]

_PLACES = {
    "BenchSuite": "feedrate.api",
    "DataLoader": "feedrate.loader.dataloader",
    "FeedrateError": "feedrate.errors",
    "ImageFiles": "feedrate.remedies.image_files",
    "LeakSuite": "feedrate.leak_api",
    "MemoryGuard": "feedrate.remedies.memory_guard",
    "SharedDict": "feedrate.remedies.shared_dict",
    "SharedList": "feedrate.remedies.shared_list",
    "TuneSuite": "feedrate.tune_api",
    "bench": "feedrate.api",
    "check_leaks": "feedrate.leak_api",
    "image_loader": "feedrate.remedies.image_loader",
    "load": "feedrate.api",
    "seed_worker": "feedrate.remedies.seeds",
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
