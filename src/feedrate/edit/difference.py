"""The difference between two texts, as `patch` takes it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def unified_diff(before: str, after: str, name: str) -> Iterator[str]:
    """Yield the lines of the unified diff, each with its line feed, none where nothing differs.

    Lines end as in the texts (a CR before the line feed stays); what has no line feed at its end
    is followed by the line that says so.
    """
    old, new = _LINES.findall(before), _LINES.findall(after)
    for line in difflib.unified_diff(old, new, name, name):
        if line.endswith("\n"):
            yield line
        else:
            yield f"{line}\n"
            yield "\\ No newline at end of file\n"
