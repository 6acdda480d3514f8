"""Signs that every terminal has: where the encoding is no Unicode, plain ones stand in."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

_PLAIN = str.maketrans(
    {
        "×": "x",
        "÷": "/",
        "µ": "u",
        "–": "-",
        "−": "-",
        "·": "-",
        "→": ">",
        "▸": ">",
        "†": "+",
        "…": ".",
    }
)


@dataclass(frozen=True, slots=True)
class Portable:
    """Renders ``inner`` so that the console's encoding can print it. Widths stay as they are."""

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments of ``inner``, with what cannot be encoded replaced."""
        for segment in console.render(self.inner, options):
            if options.ascii_only and not segment.control:
                text = segment.text.translate(_PLAIN)
                text = text.encode(options.encoding, "replace").decode(options.encoding)
                yield Segment(text, segment.style)
            else:
                yield segment
