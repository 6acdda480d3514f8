"""The document: one JSON object, readable by anything, and its versions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from feedrate.errors import FormatError
from feedrate.records import FORMAT, VERSION, Suite

# The format's history. Every version has a recorded file in tests/golden, never edited.
#
#   1  (0.1.0)  the first: metadata, procedure, benchmarks with their runs, findings,
#               recommendation, as `feedrate.records` has them.
#
# `UPGRADES[n]` takes the document of version n, as decoded JSON, and returns that of version
# n + 1. A field that is only added, with a default, needs no step and no new version: an older
# reader passes over fields that it does not know.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Suite)


class _Header(msgspec.Struct):
    """What tells whether a document is ours, before its fields are looked at."""

    format: Any = None
    version: Any = None


def encode(suite: Suite) -> bytes:
    """Return the suite as a JSON document on one line, with a line feed at its end."""
    document = _format_first(suite)
    try:
        return _encoder.encode(document) + b"\n"
    except UnicodeEncodeError:
        # A file name in argv or in a traceback need not be UTF-8, and the figures matter more.
        return _encoder.encode(_printable(msgspec.to_builtins(document))) + b"\n"


def decode(data: bytes, name: str) -> Suite:
    """Read a document; ``name`` is what errors call it.

    Raises:
        FormatError: it is cut off, not JSON, not feedrate's, newer, or a field is wrong.
    """
    header = _read_header(data, name)
    if header.format != FORMAT:
        raise FormatError(_foreign(name))
    version = header.version
    if type(version) is not int or version < 1:
        raise FormatError(f"{name} has no usable format version; measure again to replace it")
    if version > VERSION:
        raise FormatError(
            f"{name} was made by a newer feedrate (format {version}); this one reads up to "
            f"{VERSION}: upgrade with pip install -U feedrate"
        )
    try:
        if version == VERSION:
            return _decoder.decode(data)
        return msgspec.convert(_upgraded(msgspec.json.decode(data), name), Suite)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(
            f"{name} is damaged ({_field_first(str(error))}); measure again to replace it"
        ) from error


def load(path: str | os.PathLike[str]) -> Suite:
    """Read a file that feedrate wrote.

    Raises:
        FormatError: it is missing, cannot be read, or is not a document that `decode` takes.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FormatError(
            f"there is no file {path}; feedrate bench TARGET -o {path} makes one"
        ) from None
    except OSError as error:
        # Windows answers "permission denied" for a folder, so the folder is asked about.
        reason = "it is a folder; name a file in it" if _is_folder(path) else error.strerror
        raise FormatError(f"{path} cannot be read: {reason}") from error
    return decode(data, str(path))


def _format_first(suite: Suite) -> dict[str, Any]:
    """Order the fields so that the document's first bytes say what it is."""
    fields = {name: getattr(suite, name) for name in suite.__struct_fields__}
    first = {name: fields.pop(name) for name in ("format", "version", "kind")}
    return first | fields


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _printable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(part) for part in value]
    return value


def _read_header(data: bytes, name: str) -> _Header:
    if not data.strip():
        raise FormatError(f"{name} is empty; measure again to replace it")
    try:
        return msgspec.json.decode(data, type=_Header)
    except msgspec.ValidationError as error:
        raise FormatError(_foreign(name)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        # Only a document that begins as ours do is worth calling cut off.
        if not data.lstrip().startswith(b"{"):
            raise FormatError(_foreign(name)) from error
        if "truncated" in str(error) or not data.rstrip().endswith(b"}"):
            raise FormatError(
                f"{name} is cut off after {len(data)} bytes; measure again to replace it"
            ) from error
        raise FormatError(
            f"{name} is not valid JSON ({error}); measure again to replace it"
        ) from error


def _foreign(name: str) -> str:
    return f"{name} is not a result of feedrate; feedrate bench TARGET -o FILE makes one"


def _upgraded(document: dict[str, Any], name: str) -> dict[str, Any]:
    for version in range(document["version"], VERSION):
        step = UPGRADES.get(version)
        if step is None:
            raise FormatError(
                f"{name} has format {version}, which this feedrate no longer reads; measure again"
            )
        document = step(document) | {"version": version + 1}
    return document


def _field_first(message: str) -> str:
    """Turn "Expected `int`, got `str` - at `$.metadata.seed`" to "metadata.seed: expected …"."""
    what, _, where = message.replace("`", "").partition(" - at $")
    what = what[:1].lower() + what[1:]
    return f"{where.lstrip('.')}: {what}" if where else what


def _is_folder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False
