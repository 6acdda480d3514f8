"""Tables, answers, findings and figure of a suite with both loaders, and of one with one."""

from __future__ import annotations

import re

from matplotlib.lines import Line2D

from builders import make_suite
from feedrate.records import Suite
from feedrate.report.curves import curves_of, panels_of
from feedrate.report.plots import build_figure
from feedrate.report.text import suite_text
from two_loaders import ALONE, OURS, TORCHS, Rates, alone, side, two_loaders


def rows(text: str) -> list[list[str]]:
    """Return worker count and loader of each row, without the mark."""
    found = re.findall(r"^[▸ ]? +(\d+) +(torch|feedrate|–)", text, re.MULTILINE)
    return [list(row) for row in found]


def flowed(text: str) -> str:
    return " ".join(text.split())


def test_the_table_has_a_column_for_the_loader_where_there_are_two() -> None:
    text = suite_text(two_loaders())
    assert "workers    loader" in text
    assert rows(text) == [
        ["0", "–"],
        ["1", "torch"],
        ["1", "feedrate"],
        ["2", "torch"],
        ["2", "feedrate"],
        ["4", "torch"],
        ["4", "feedrate"],
    ]
    assert max(map(len, text.splitlines())) <= 100
    assert "Not shown in 100 columns" not in text


def test_one_loader_has_no_column() -> None:
    for suite in (make_suite(), make_suite([alone(), *side(TORCHS, "torch")])):
        (head,) = [line for line in suite_text(suite).splitlines() if "workers  start-up" in line]
        assert "loader" not in head


def test_each_loader_has_its_answer_and_its_marked_row() -> None:
    text = suite_text(two_loaders(ours={1: (150.0,), 2: (240.0,), 4: (241.0,)}))
    answers = flowed(text[: text.index("Findings")])
    assert "▸ torch's loader: from one run each, 2 workers are enough: 180 images/s" in answers
    assert "▸ feedrate's loader: from one run each, 2 workers are enough: 240 images/s" in answers
    marked = [line.split()[1:3] for line in text.splitlines() if re.match(r"▸ +\d", line)]
    assert marked == [["2", "torch"], ["2", "feedrate"]]


def test_findings_of_each_stand_under_its_name() -> None:
    text = suite_text(two_loaders())
    titles = [line for line in text.splitlines() if line.startswith("Findings")]
    assert titles[-3:] == [
        "Findings: light",
        "Findings: light, torch's loader",
        "Findings: light, feedrate's loader",
    ]


def test_verbose_rows_name_the_loader() -> None:
    text = suite_text(two_loaders(), verbose=True)
    runs = text[text.index("each run") : text.index("▸ torch")]
    assert rows(runs)[1:3] == [["1", "torch"], ["1", "feedrate"]]


def both_again(torchs: Rates, ours: Rates) -> Suite:
    return make_suite(
        [
            alone(),
            *side(TORCHS, "torch"),
            *side(OURS, "feedrate"),
            *side(torchs, "torch", part="repeated"),
            *side(ours, "feedrate", part="repeated"),
        ]
    )


def test_each_loader_has_its_line_with_the_point_without_workers() -> None:
    suite = both_again({2: (181.0, 182.0)}, {4: (301.0, 302.0)})
    torchs, ours = curves_of(suite)
    assert (torchs.name, ours.name) == ("light, loader torch", "light, loader feedrate")
    for curve, rates, again in ((torchs, TORCHS, 2), (ours, OURS, 4)):
        drawn = [point.rate for point in curve.main]
        assert drawn == [ALONE[0], *(values[0] for values in rates.values())]
        assert [point.workers for point in curve.repeated] == [again]
        kinds = {point.benchmark.settings.loader for point in (*curve.best, *curve.repeated)}
        assert len(kinds - {None}) == 1
    assert [panel.title for panel in panels_of((torchs, ours))] == [torchs.name, ours.name]


def test_the_lines_differ_in_black_and_white() -> None:
    left, _ = build_figure(two_loaders()).subfigs
    lines = [
        line for line in left.findobj(Line2D) if str(line.get_label()).startswith("light, loader")
    ]
    one, other = {str(line.get_label()): line for line in lines}.values()
    assert one.get_marker() != other.get_marker()
    assert one.get_linestyle() != other.get_linestyle()
    assert "loader torch" in str(one.get_label())
    assert "loader feedrate" in str(other.get_label())
