"""The figure: what its axes contain, and the files it is written to."""

from __future__ import annotations

import errno
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from builders import (
    make_benchmark,
    make_facts,
    make_failed_run,
    make_metadata,
    make_procedure,
    make_suite,
)
from feedrate.analysis.summary import Point, summarize
from feedrate.errors import OutputError, UsageError
from feedrate.records import Suite
from feedrate.report.plots import build_figure, draw_suite
from two_loaders import OURS, TORCHS, alone, side

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


@pytest.fixture(scope="module", autouse=True)
def fonts_are_open() -> None:
    """Draw once: matplotlib keeps the files of its fonts open from then on."""
    FigureCanvasAgg(build_figure(make_suite())).draw()


def halves(figure: Figure) -> tuple[Axes, list[Axes]]:
    left, right = figure.subfigs
    (rates,) = left.axes
    return rates, list(right.axes)


def labelled(axes: Axes) -> list[Line2D]:
    """Return the lines that stand in the legend: the medians, without marks."""
    return [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def pinned_only() -> Suite:
    return make_suite(
        [
            make_benchmark(
                4,
                [rate, rate + 10],
                part="pin_memory",
                pin_memory=on,
                run_fields={"facts": make_facts(4, pin_memory=on)},
            )
            for on, rate in ((False, 800.0), (True, 820.0))
        ]
    )


def crossed() -> Suite:
    """Three prefetch factors by four worker counts, by two ways to start workers."""
    return make_suite(
        [
            make_benchmark(
                count,
                [200.0 * min(count, 4) + 10 * factor],
                prefetch_factor=factor,
                start_method=method,
                run_fields={
                    "facts": make_facts(count, prefetch_factor=factor, start_method=method)
                },
            )
            for count in (1, 2, 4, 64)
            for factor in (1, 2, 8)
            for method in ("fork", "forkserver")
        ],
        metadata=make_metadata(target="a/long/path/to/$HOME/" + "x" * 150 + ".py:make_loader"),
    )


def cold_only() -> Suite:
    return make_suite(
        [
            make_benchmark(n, [rate], run_fields={"later_epochs": 0, "cold_rate": rate})
            for n, rate in ((0, 500.0), (2, 900.0))
        ],
        procedure=make_procedure(epochs=1, repeats=1),
    )


def both() -> Suite:
    """Two conditions with two loaders each, some counts measured again."""
    benchmarks = [
        benchmark
        for condition in ("light", "augmented")
        for rates, loader in ((TORCHS, "torch"), (OURS, "feedrate"))
        for part, measured in (("sweep", rates), ("repeated", {2: [180.0, 190.0, 185.0]}))
        for benchmark in side(measured, loader, condition=condition, part=part)
    ]
    return make_suite([alone(), alone(condition="augmented"), *benchmarks])


def test_the_lines_are_the_medians_of_the_suite(published: Suite) -> None:
    points = summarize(published)
    axes, _ = halves(build_figure(published))
    drawn = [line.get_xydata() for line in labelled(axes)]
    for line, part in zip(drawn, (points[:7], points[7:14], points[14:17]), strict=True):
        assert line == pytest.approx(np.array([[p.workers, median(p)] for p in part]))


def test_error_bars_reach_from_the_smallest_to_the_largest_value(published: Suite) -> None:
    repeated = summarize(published)[14:17]
    axes, _ = halves(build_figure(published))
    (bars,) = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    segments = bars.lines[2][0].get_segments()
    assert [(s[0][1], s[1][1]) for s in segments] == [
        pytest.approx((p.rates.low, p.rates.high)) for p in repeated if p.rates is not None
    ]


def test_the_bars_are_cold_and_later_seconds_of_the_suite(published: Suite) -> None:
    points = summarize(published)
    _, panels = halves(build_figure(published))
    for axes, part in zip(panels, (points[:7], points[7:14]), strict=True):
        heights = [
            c.patches[0].get_height() for c in axes.containers if isinstance(c, BarContainer)
        ]
        assert heights == pytest.approx([s for p in part for s in seconds(p)])


def median(point: Point) -> float:
    assert point.rates is not None
    return point.rates.median


def seconds(point: Point) -> tuple[float, float]:
    assert point.cold_seconds is not None
    assert point.epoch_seconds is not None
    return point.cold_seconds.median, point.epoch_seconds.median


def test_curves_differ_in_more_than_colour(published: Suite) -> None:
    axes, panels = halves(build_figure(published))
    light, augmented, repeated = labelled(axes)
    assert light.get_marker() != augmented.get_marker()
    assert light.get_linestyle() != augmented.get_linestyle()
    assert augmented.get_markerfacecolor() != repeated.get_markerfacecolor()
    cold, later = (container.patches[0] for container in panels[0].containers[:2])
    assert cold.get_hatch()
    assert not later.get_hatch()


def test_every_axis_begins_at_zero_and_counts_are_ticks(published: Suite) -> None:
    axes, panels = halves(build_figure(published))
    assert all(each.get_ylim()[0] == 0 for each in (axes, *panels))
    assert list(axes.get_xticks()) == [0, 1, 2, 4, 8, 12, 16]
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == [str(n) for n in axes.get_xticks()]


def test_the_start_of_the_plateau_is_ringed_and_named(published: Suite) -> None:
    axes, _ = halves(build_figure(published))
    points = summarize(published)
    rings = [line for line in axes.get_lines() if line.get_markersize() > 12]
    assert [tuple(ring.get_xydata()[0]) for ring in rings] == [
        (8, median(points[4])),
        (12, median(points[15])),
    ]
    words = texts(build_figure(published)).replace("\n", " ")
    assert "light; one run each; plateau starts at 8 (ring)" in words
    assert "plateau starts at 12 (ring)" in words


def test_the_host_and_the_procedure_are_readable(published: Suite) -> None:
    words = texts(build_figure(published))
    for part in ("fashion-mnist", "Example CPU", "2 usable CPUs of 4 (affinity)", "Example GPU",
                 "torch 2.6.0", "1 cold epoch and 1 later epoch a run", "images/s",
                 "median of 5 (min–max)"):  # fmt: skip
        assert part in words


def test_settings_with_one_count_have_a_place_each() -> None:
    suite = pinned_only()
    axes, (panel,) = halves(build_figure(suite))
    for each in (axes, panel):
        assert [t.get_text() for t in each.get_xticklabels()] == ["pin_memory off", "pin_memory on"]
    drawn = [tuple(line.get_xydata()[0]) for line in labelled(axes)]
    assert drawn == [pytest.approx((n, median(p))) for n, p in enumerate(summarize(suite))]


def test_panels_of_one_workload_have_the_same_seconds_and_others_their_own(
    published: Suite,
) -> None:
    _, panels = halves(build_figure(crossed()))
    assert len(panels) == 6
    assert len({axes.get_ylim() for axes in panels}) == 1
    _, (light, augmented) = halves(build_figure(published))
    assert light.get_ylim() != augmented.get_ylim()


def test_crowded_counts_keep_their_ticks_and_share_their_numbers() -> None:
    axes, _ = halves(build_figure(crossed()))
    assert list(axes.get_xticks()) == [1, 2, 4, 64]
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert "64" in shown
    assert "" in shown


def test_what_failed_is_a_cross_and_not_a_figure(troubled: Suite) -> None:
    axes, (panel,) = halves(build_figure(troubled))
    crosses = [line.get_xydata().tolist() for line in axes.get_lines() if line.get_marker() == "x"]
    assert crosses == [[[4, 0]], [[8, 0]], [[16, 0]]]
    (line,) = labelled(axes)
    assert line.get_xdata().tolist() == [0, 2]
    assert len([line for line in panel.get_lines() if line.get_marker() == "x"]) == 3
    assert "no figure: failed or skipped" in texts(build_figure(troubled))


def test_cold_epochs_alone_are_drawn_and_named() -> None:
    suite = cold_only()
    axes, (panel,) = halves(build_figure(suite))
    (line,) = labelled(axes)
    assert line.get_ydata() == pytest.approx([median(p) for p in summarize(suite)])
    words = texts(build_figure(suite))
    assert "Items/s of cold epochs against workers" in words
    assert "no warm epoch was measured" in words
    assert len([c for c in panel.containers if isinstance(c, BarContainer)]) == 2
    assert "warm epoch\n" not in words


def test_epochs_with_new_workers_are_not_called_warm() -> None:
    facts = make_facts(2, persistent_workers=False)
    suite = make_suite(
        [make_benchmark(0, [500.0]), make_benchmark(2, [900.0], run_fields={"facts": facts})]
    )
    words = texts(build_figure(suite))
    assert "Items/s of later epochs against workers" in words
    assert "later epoch (*: workers are started again)" in words
    _, (panel,) = halves(build_figure(suite))
    assert [text.get_text() for text in panel.get_xticklabels()] == ["0", "2*"]


@pytest.mark.parametrize(
    "suite",
    [
        make_suite([]),
        make_suite([make_benchmark(2, runs=[make_failed_run()])]),
        make_suite([make_benchmark(n, runs=[make_failed_run()]) for n in (2, 4)]),
        make_suite([make_benchmark(2, [500.0])]),
    ],
    ids=["empty", "one failed", "all failed", "single"],
)
def test_suites_with_little_in_them_are_drawn(suite: Suite) -> None:
    figure = build_figure(suite)
    FigureCanvasAgg(figure).draw()
    measured = any(point.rates is not None for point in summarize(suite))
    assert ("nothing could be measured" in texts(figure)) is not measured


@pytest.fixture
def drawn_texts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Figure], dict[str, list[Bbox]]]:
    """Return a function from a figure to the boxes of the texts that are really drawn on it."""
    drawn: list[Text] = []
    original = Text.draw

    def draw(text: Text, renderer: RendererBase) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn.append(text)
        original(text, renderer)

    monkeypatch.setattr(Text, "draw", draw)

    def collect(figure: Figure) -> dict[str, list[Bbox]]:
        drawn.clear()
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        boxes: dict[str, list[Bbox]] = {}
        for text in {id(text): text for text in drawn}.values():
            box = text.get_window_extent(canvas.get_renderer())
            boxes.setdefault(text.get_text(), []).append(box)
        return boxes

    return collect


def test_no_text_covers_another_or_leaves_the_figure(
    published: Suite, troubled: Suite, drawn_texts: Callable[[Figure], dict[str, list[Bbox]]]
) -> None:
    suites = (published, troubled, pinned_only(), crossed(), cold_only(), make_suite(), both())
    for suite in suites:
        figure = build_figure(suite)
        boxes = [(name, box) for name, same in drawn_texts(figure).items() for box in same]
        assert len(boxes) > 15
        covered = [
            (name, other)
            for (name, box), (other, other_box) in itertools.combinations(boxes, 2)
            if box.overlaps(other_box)
        ]
        assert covered == []
        outside = [name for name, box in boxes if not contains(figure.bbox, box)]
        assert outside == []


def test_a_long_legend_leaves_the_rates_their_room() -> None:
    figure = build_figure(both())
    FigureCanvasAgg(figure).draw()
    axes, _ = halves(figure)
    assert axes.get_window_extent().height > 0.3 * figure.bbox.height


def contains(outer: Bbox, inner: Bbox) -> bool:
    return bool(
        outer.x0 <= inner.x0
        and outer.y0 <= inner.y0
        and inner.x1 <= outer.x1
        and inner.y1 <= outer.y1
    )


@pytest.mark.parametrize("ending", [".png", ".svg", ".PDF"])
def test_drawing_twice_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    draw_suite(make_suite(), first)
    draw_suite(make_suite(), second)
    data = first.read_bytes()
    assert data.startswith(MAGIC[ending.lower()])
    assert data == second.read_bytes()
    assert len(data) > 10_000


def test_a_png_is_a_picture_with_something_on_it(published: Suite, tmp_path: Path) -> None:
    draw_suite(published, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        picture.load()
        assert picture.width == 1650
        low, high = picture.convert("L").getextrema()
    assert (low, high) == (0, 255)


def test_the_users_matplotlib_is_left_as_it_was(published: Suite, tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 21, "axes.facecolor": "black"}):
        before = dict(matplotlib.rcParams)
        draw_suite(published, tmp_path / "a.svg")
        assert dict(matplotlib.rcParams) == before
    draw_suite(published, tmp_path / "b.svg")
    # and it has no part in the picture
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_letters_that_the_font_lacks_are_no_warning(tmp_path: Path) -> None:
    suite = make_suite(metadata=make_metadata(target="訓練.py:make_loader"))
    draw_suite(suite, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_another_ending_is_refused_with_the_three(published: Suite, tmp_path: Path) -> None:
    for name in ("figure.jpg", "figure"):
        with pytest.raises(UsageError, match=r"\.png, \.svg or \.pdf"):
            draw_suite(published, tmp_path / name)
        assert not (tmp_path / name).exists()


def test_a_file_that_cannot_be_written_is_one_sentence(published: Suite, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="Cannot write the figure") as caught:
        draw_suite(published, tmp_path / "missing" / "a.png")
    assert "\n" not in str(caught.value)


def test_no_window_toolkit_is_loaded() -> None:
    code = (
        "import sys, feedrate.report.plots; "
        "sys.exit('matplotlib.pyplot' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_full_disk_leaves_no_half_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OutputError, match="No space left"):
        draw_suite(make_suite(rates={0: [100.0], 2: [200.0]}), tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
