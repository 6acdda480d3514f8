"""A table for terminals whose rows may end in a sentence and whose columns know their worth.

Rich's table cannot let one cell run over the columns beside it, and it squeezes columns until
figures break. Here a row that has no figures says why in their place, and columns that do not fit
are left out, the least important first, and named below the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from feedrate.report.hanging import wrapped

_GAPS = (2, 1)
_SENTENCE_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Column:
    """``head`` is its title, line by line. Columns with the lowest ``worth`` are left out first.

    A column whose ``worth`` is ``None`` is never left out; ``name`` is what to call one that was.
    """

    head: tuple[str, ...]
    worth: int | None = None
    name: str = ""
    left: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Cells for the first columns, and ``note``: a sentence that follows them.

    In a row with leading cells only, the note stands in the place of the figures, otherwise below.
    """

    cells: tuple[str, ...]
    note: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """The table. ``lead`` is how many columns stand before the sentence of a row without figures.

    Raises:
        ValueError: a row has more cells than there are columns, or neither all nor ``lead``.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    lead: int

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) not in (self.lead, len(self.columns)):
                raise ValueError(f"a row has {len(row.cells)} cells, not {len(self.columns)}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines that fit into the width there is."""
        widths = self._widths()
        kept, gap = _fit(self.columns, widths, options.max_width)
        yield from self._head(kept, widths, gap)
        for row in self.rows:
            yield from self._row(row, kept, widths, gap, options.max_width)
        left_out = [column.name for n, column in enumerate(self.columns) if n not in kept]
        if left_out:
            note = f"Not shown in {options.max_width} columns: {', '.join(left_out)}."
            yield from (Text(line, style="dim") for line in wrapped(note, options.max_width))

    def _widths(self) -> list[int]:
        full = [row.cells for row in self.rows]
        return [
            max(
                *(len(line) for line in column.head),
                *(len(cells[n]) for cells in full if n < len(cells)),
                0,
            )
            for n, column in enumerate(self.columns)
        ]

    def _head(self, kept: Sequence[int], widths: Sequence[int], gap: int) -> Iterator[Text]:
        height = max(len(self.columns[n].head) for n in kept)
        for line in range(-height, 0):
            parts = []
            for n in kept:
                head = self.columns[n].head
                text = head[line] if len(head) >= -line else ""
                parts.append(_align(text, widths[n], self.columns[n].left))
            if any(map(str.strip, parts)):
                yield Text((" " * gap).join(parts).rstrip(), style="dim")

    def _row(
        self, row: Row, kept: Sequence[int], widths: Sequence[int], gap: int, width: int
    ) -> Iterator[Text]:
        shown = [n for n in kept if n < len(row.cells)]
        line = (" " * gap).join(
            _align(row.cells[n], widths[n], self.columns[n].left) for n in shown
        )
        indent = sum(widths[n] + gap for n in kept if n < self.lead)
        room = max(width - indent, _SENTENCE_WIDTH)
        notes = wrapped(row.note, room)
        if len(row.cells) == self.lead and notes:
            line = line.ljust(indent) + notes.pop(0)
        yield Text(line.rstrip(), style=row.style)
        for note in notes:
            yield Text(" " * indent + note, style=row.style)


def _fit(
    columns: Sequence[Column], widths: Sequence[int], width: int
) -> tuple[tuple[int, ...], int]:
    """Return the columns to show and the gap between them: wide gaps first, then all columns."""
    kept = list(range(len(columns)))
    while True:
        for gap in _GAPS:
            if sum(widths[n] for n in kept) + gap * (len(kept) - 1) <= width:
                return tuple(kept), gap
        spare = [n for n in kept if columns[n].worth is not None]
        if not spare:
            return tuple(kept), _GAPS[-1]
        kept.remove(min(spare, key=lambda n: (columns[n].worth or 0, -n)))


def _align(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)
