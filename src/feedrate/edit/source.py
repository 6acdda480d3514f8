"""A source file's bytes as text and back, with nothing lost."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass

from feedrate.errors import TargetError


@dataclass(frozen=True, slots=True)
class SourceBytes:
    """The text of a Python file, and how it stood in the file.

    ``encoding`` is "utf-8-sig" where the file begins with a byte order mark. Line endings stay in
    the text as they are.
    """

    text: str
    encoding: str

    @classmethod
    def decode(cls, data: bytes, name: str) -> SourceBytes:
        """Read a file's bytes as Python does; ``name`` is what errors call the file.

        Raises:
            TargetError: its encoding is unknown, or not the one that it names.
        """
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            text = data.decode(encoding)
            kept = text.encode(encoding) == data
        except (SyntaxError, UnicodeError) as error:
            raise TargetError(
                f"{name} cannot be read as Python source ({error}): make the change by hand"
            ) from error
        if not kept:  # some encodings have several byte sequences for one text
            raise TargetError(
                f"{name} is in {encoding}, of which not every byte can be kept: make the change "
                "by hand"
            )
        return cls(text, encoding)

    def encode(self, text: str) -> bytes:
        """Return a changed text as the file's bytes."""
        return text.encode(self.encoding)
