"""The file: how a suite is written, read back, and kept between commands."""

from feedrate.store.document import decode, encode, load
from feedrate.store.kept import default_path, latest, prune, state_folder
from feedrate.store.result_file import ResultFile, save

__all__ = [
    "ResultFile",
    "decode",
    "default_path",
    "encode",
    "latest",
    "load",
    "prune",
    "save",
    "state_folder",
]
