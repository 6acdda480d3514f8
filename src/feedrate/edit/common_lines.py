"""A text and what LibCST gives back for it, line by line.

LibCST keeps nearly everything, but with version 1.9 a blank line before a comment of odd
indentation is lost, and a backslash before the first statement. Its line numbers are those of
what it gives back. So lines are translated, and a change is carried over to the text itself.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from feedrate.errors import TargetError

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class CommonLines:
    """The lines that a rendering has in common with the text that it was made from."""

    def __init__(self, rendered: str, text: str) -> None:
        self._rendered = _LINES.findall(rendered)
        self._text = _LINES.findall(text)
        matcher = SequenceMatcher(None, self._rendered, self._text, autojunk=False)
        self._shifts = {
            block.a + index: block.b + index
            for block in ([] if rendered == text else matcher.get_matching_blocks())
            for index in range(block.size)
        }
        self._is_exact = rendered == text

    def line(self, number: int) -> int:
        """Return the text's number of a line of the rendering; both count from 1."""
        if self._is_exact:
            return number
        return self._shifts.get(number - 1, number - 1) + 1

    def carried(self, changed: str) -> str:
        """Return the text with the lines changed that differ between two renderings.

        Raises:
            TargetError: one of these lines is none of the text's.
        """
        if self._is_exact:
            return changed
        old, new = self._rendered, _LINES.findall(changed)
        begin = 0
        while begin < min(len(old), len(new)) and old[begin] == new[begin]:
            begin += 1
        rest = 0
        while rest < min(len(old), len(new)) - begin and old[-1 - rest] == new[-1 - rest]:
            rest += 1
        if begin == len(old) == len(new):
            return "".join(self._text)
        begin = max(begin - 1, 0)  # a line that is there, also where lines were only added
        places = [self._shifts.get(index) for index in range(begin, len(old) - rest)]
        first = places[0]
        if first is None or places != list(range(first, first + len(places))):
            raise TargetError("the call stands among lines that cannot be kept: change it by hand")
        lines = self._text
        lines = [*lines[:first], *new[begin : len(new) - rest], *lines[first + len(places) :]]
        return "".join(lines)
