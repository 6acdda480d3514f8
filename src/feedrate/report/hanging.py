"""Sentences with a sign or a word in front, whose later lines stand below the first's text."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_LEAST_WIDTH = 20
# "30 ms", "3 %" and "1.5 GiB" are read as one word
_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|µs|h|min|B|KiB|MiB|GiB|TiB)(?!\w))")
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Hanging:
    """``lead``, then ``text`` with its lines below each other, without spaces at their ends.

    ``strong`` is a part at the beginning of ``text`` that is printed bold.
    """

    lead: str
    text: str
    lead_style: str = ""
    style: str = ""
    strong: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        lines = wrapped(self.text, options.max_width - len(self.lead)) or [""]
        left = len(self.strong)
        for number, line in enumerate(lines):
            lead = self.lead if number == 0 else " " * len(self.lead)
            text = Text(line, style=self.style)
            text.stylize("bold", 0, max(0, left))
            left -= len(line) + 1
            yield Text.assemble((lead, self.lead_style), text)


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, with figures and their units on one line."""
    kept = _UNIT.sub(_NO_BREAK, text)
    lines = textwrap.wrap(kept, max(width, _LEAST_WIDTH), break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]
