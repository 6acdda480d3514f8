"""Draws a suite: warm rate against workers, and cold against warm epochs, from the file alone.

Legible in black and white: conditions differ in marker and line style, cold and warm bars in
their filling. The same suite gives the same bytes with the same matplotlib. Only the Figure
interface is used: no window, no pyplot; matplotlib's settings are the library's own while it
draws, and the user's again after it.
"""

from __future__ import annotations

import contextlib
import io
import textwrap
import warnings
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from feedrate.analysis.tuned import read
from feedrate.errors import OutputError, UsageError
from feedrate.records import Suite
from feedrate.report.curves import curves_of, panels_of
from feedrate.report.header import host_line, procedure_line, software_line
from feedrate.report.leak_figure import draw_watch
from feedrate.report.panels import draw_epochs, draw_rates
from feedrate.report.tuning_figure import draw_tune
from feedrate.report.words import items_word

_WITHOUT_DATE: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_FOOT_WIDTH = 175
_TITLE_WIDTH = 110


def draw_suite(suite: Suite, path: Path) -> None:
    """Draw the suite to a file; its ending decides the format.

    Raises:
        UsageError: the ending is none of .png, .svg and .pdf.
        OutputError: the file cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in _WITHOUT_DATE:
        raise UsageError(f"A figure's name ends in .png, .svg or .pdf, and {path.name!r} does not.")
    drawn = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # a name may have letters that the font lacks; they are drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        _use_own_settings()
        figure = _figure(suite)
        figure.savefig(drawn, format=ending[1:], dpi=150, metadata=_WITHOUT_DATE[ending])
    # written at once: a drawing that fails leaves no half a file behind, nor does a full disk
    was_there = path.exists()
    try:
        path.write_bytes(drawn.getvalue())
    except OSError as error:
        if not was_there:
            with contextlib.suppress(OSError):
                path.unlink()
        raise OutputError(
            f"Cannot write the figure {path}: {error.strerror or error}; name another file."
        ) from error


def build_figure(suite: Suite) -> Figure:
    """Return the figure, not drawn yet: rates on the left, epochs' seconds on the right.

    Of a tune it is one: the levels, and what bounds them. Of a watch: memory over the epochs.
    """
    with matplotlib.rc_context():
        _use_own_settings()
        return _figure(suite)


def _figure(suite: Suite) -> Figure:
    if suite.kind == "tune":
        figure = _sheet(suite, height=5.4)
        (only,) = figure.subfigures(1, 1, squeeze=False)[0]
        draw_tune(only, read(suite), items=items_word(suite))
        return figure
    if suite.watch is not None:
        figure = _sheet(suite, height=5.0)
        (only,) = figure.subfigures(1, 1, squeeze=False)[0]
        draw_watch(only, suite.watch)
        return figure
    curves = curves_of(suite)
    panels = panels_of(curves)
    rows, columns = _shape(len(panels))
    # what each curve has in the legend, two lines of text each, is below the rates
    entries = sum(1 + bool(curve.repeated) for curve in curves)
    figure = _sheet(suite, height=max(4.9, 1.7 * rows + 1.6, 3.4 + 0.38 * entries))
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.15, 1))[0]
    draw_rates(left, curves, items=items_word(suite))
    draw_epochs(right, panels, rows=rows, columns=columns)
    return figure


def _sheet(suite: Suite, *, height: float) -> Figure:
    """Return an empty figure with the target above and how it was measured below."""
    figure = Figure(figsize=(11, height), layout="constrained")
    target = textwrap.fill(suite.metadata.target, _TITLE_WIDTH)
    figure.suptitle(target, x=0.012, ha="left", weight="bold", parse_math=False)
    figure.supxlabel(_foot(suite), x=0.012, ha="left", fontsize=7.5, color="0.25", parse_math=False)
    return figure


def _shape(panels: int) -> tuple[int, int]:
    """Return rows and columns of the right half: one column as long as three are enough."""
    columns = 1 if panels <= 3 else 2
    return max(1, -(-panels // columns)), columns


def _foot(suite: Suite) -> str:
    lines = [host_line(suite.metadata), software_line(suite.metadata)]
    if suite.kind not in ("tune", "leaks"):
        lines.append(procedure_line(suite))
    return "\n".join(textwrap.fill(line, _FOOT_WIDTH) for line in lines)


def _use_own_settings() -> None:
    matplotlib.rcdefaults()
    matplotlib.rc("font", size=9)
    matplotlib.rc("axes", titlesize=9)
    matplotlib.rc("axes.spines", top=False, right=False)
    matplotlib.rc("figure", titlesize=11)
    matplotlib.rc("legend", frameon=False, handlelength=3.2)
    # with a salt of its own each drawing gets the same identifiers
    matplotlib.rc("svg", hashsalt="feedrate")
    # text stays text in a PDF
    matplotlib.rc("pdf", fonttype=42)
