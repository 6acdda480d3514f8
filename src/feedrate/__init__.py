"""feedrate: why training waits for data, and what to change.

Importing this package imports neither torch nor anything heavy; names are loaded when used.
"""

from feedrate.version import __version__

__all__ = ["__version__"]
