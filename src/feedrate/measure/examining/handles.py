"""What is open in the dataset before workers are started: files, databases, locks, CUDA tensors."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Any, Literal

from feedrate.measure.examined import Handle
from feedrate.measure.examining.walking import name_of, walk

Family = Literal["file", "hdf5", "lmdb", "archive", "socket", "database", "lock", "cuda"]

_BY_TYPE: dict[str, Family] = {
    "h5py._hl.files.File": "hdf5",
    "h5py._hl.group.Group": "hdf5",
    "h5py._hl.dataset.Dataset": "hdf5",
    "h5py.h5f.FileID": "hdf5",
    "tables.file.File": "hdf5",
    "netCDF4._netCDF4.Dataset": "hdf5",
    "zipfile.ZipFile": "archive",
    "zipfile._path.ZipFile": "archive",
    "tarfile.TarFile": "archive",
    "socket.socket": "socket",
    "ssl.SSLSocket": "socket",
    "http.client.HTTPConnection": "socket",
    "http.client.HTTPSConnection": "socket",
    "requests.sessions.Session": "socket",
    "urllib3.poolmanager.PoolManager": "socket",
    "sqlite3.Connection": "database",
    "sqlite3.Cursor": "database",
    "psycopg2.extensions.connection": "database",
    "psycopg.Connection": "database",
    "pymysql.connections.Connection": "database",
    "pymongo.mongo_client.MongoClient": "database",
    "pymongo.synchronous.mongo_client.MongoClient": "database",
    "redis.client.Redis": "database",
    "redis.connection.Connection": "database",
    "sqlalchemy.engine.base.Connection": "database",
}
_BY_BUILTIN: dict[tuple[str, str], Family] = {
    ("builtins", "Environment"): "lmdb",  # lmdb.Environment of its C extension
    ("lmdb.cffi", "Environment"): "lmdb",
    ("lmdb", "Environment"): "lmdb",
    ("builtins", "Transaction"): "lmdb",
    ("lmdb.cffi", "Transaction"): "lmdb",
}


def find_handles(parts: Iterable[tuple[str, Any]]) -> tuple[Handle, ...]:
    """Return what is open in each of the (name, thing) pairs and below.

    What hangs on something that is found already (the file inside an archive) is left out.
    """
    found: list[Handle] = []
    for name, part in parts:
        for path, value in walk(part, name):
            if any(path.startswith((f"{each.path}.", f"{each.path}[")) for each in found):
                continue
            family = _family(value)
            if family is not None:
                found.append(Handle(path=path, kind=name_of(type(value)), family=family))
    return tuple(found)


def _family(value: Any) -> Family | None:
    for kind in type(value).__mro__:
        family = _BY_TYPE.get(f"{kind.__module__}.{kind.__qualname__}")
        if family is None and "lmdb" in sys.modules:
            family = _BY_BUILTIN.get((kind.__module__, kind.__qualname__))
        if family is not None:
            return family if _is_open(value, family) else None
    if isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
        return "file" if not value.closed and _has_descriptor(value) else None
    locked = getattr(value, "locked", None)
    if type(value).__module__ in ("_thread", "threading") and callable(locked) and locked():
        return "lock"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.is_cuda:
        return "cuda"
    return None


def _is_open(value: Any, family: Family) -> bool:
    """Tell whether it is open, as far as it says; closed ones are harmless."""
    try:
        if family == "hdf5":
            return bool(getattr(value, "id", True))
        if family == "archive":
            return getattr(value, "fp", getattr(value, "fileobj", None)) is not None
        if family == "socket" and hasattr(value, "fileno"):
            return int(value.fileno()) >= 0
    except Exception:
        return True
    return True


def _has_descriptor(value: io.IOBase) -> bool:
    try:
        return value.fileno() >= 0
    except (OSError, ValueError):
        return False
