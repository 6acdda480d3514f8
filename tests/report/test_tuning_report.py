"""A tune as text and as a figure."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.tuned import RACE
from feedrate.records import Suite
from feedrate.report.plots import build_figure, draw_suite
from feedrate.report.text import suite_text
from feedrate.report.tuning import loader_place
from feedrate.tune_api import answered
from tune_builders import Loop, make_tune, tuned_suite

LONG = 10**6


def text(loop: Loop | None = None, *, verbose: bool = False, seconds: float = 60) -> str:
    made = answered(tuned_suite(loop or Loop(own=make_facts(2, length=LONG)), seconds=seconds))
    return suite_text(made, verbose=verbose)


def words(loop: Loop | None = None) -> str:
    return " ".join(text(loop).split())


def test_it_fits_on_one_screen() -> None:
    for loop in (Loop(), Loop(rampable=False), Loop(breaks_at=6, ramp_to=(1, 5, 6))):
        lines = text(loop, seconds=90).splitlines()
        assert max(map(len, lines)) <= 100
        assert len(lines) <= 40


def test_it_says_what_was_measured() -> None:
    shown = words()
    assert "feedrate tune train.py --epochs 3" in shown
    assert "loader train.py:42, Photographs in batches of 64 · num_workers=2" in shown
    assert (
        "measured 6 runs · 2 rounds against your settings, in rotated order; more, up to 5, would "
        "change nothing"
    ) in shown
    assert "your loop 3,200 items/s · waits 60 %" in shown
    assert "ceiling 8,000 items/s when the loader costs nothing: at most 2.50×" in shown


def test_it_says_why_there_were_fewer_rounds_than_five() -> None:
    # a gain of 16 %, which two rounds do not put beyond doubt
    close = Loop(own=make_facts(2, length=LONG), step=0.0086, ramp_to=(1, 2, 3), chosen=3)
    for seconds, said in ((60, ""), (28, "; for 5 the time was short")):
        shown = " ".join(text(close, seconds=seconds).split())
        assert re.search(rf"rounds against your settings, in rotated order{said} ·", shown), shown


def test_where_its_wait_promises_more_than_the_ceiling_that_is_said() -> None:
    suite = tuned_suite(Loop(own=make_facts(2, length=LONG)))
    look = suite.benchmarks[0]
    windows = [
        msgspec.structs.replace(each, seconds=2 * each.seconds) if each.phase == "cached" else each
        for each in look.runs[0].windows
    ]
    run = msgspec.structs.replace(look.runs[0], windows=tuple(windows))
    look = msgspec.structs.replace(look, runs=(run,))
    suite = msgspec.structs.replace(suite, benchmarks=(look, *suite.benchmarks[1:]))
    assert (
        "ceiling 4,000 items/s when the loader costs nothing: at most 2.50×, by the 60 % of its "
        "time that it waits"
    ) in " ".join(suite_text(suite).split())


def test_the_median_and_the_99th_percentile_are_shown_where_batches_were_timed() -> None:
    suite = tuned_suite(Loop(own=make_facts(2, length=LONG)))
    look = suite.benchmarks[0]
    own = msgspec.structs.replace(
        look.runs[0].windows[0], batch_waits=(0.006,) * 90 + (0.1,) * 10, batch_steps=(0.004,) * 100
    )
    run = msgspec.structs.replace(look.runs[0], windows=(own, *look.runs[0].windows[1:]))
    look = msgspec.structs.replace(look, runs=(run,))
    suite = msgspec.structs.replace(suite, benchmarks=(look, *suite.benchmarks[1:]))
    assert "wait 6.00 ms (p99 100 ms) · step 4.00 ms (p99 4.00 ms)" in suite_text(suite)


def test_the_curve_stands_beside_its_roofline() -> None:
    lines = text().splitlines()
    (head,) = (n for n, line in enumerate(lines) if "roofline" in line)
    rows = [line.split() for line in lines[head + 2 : head + 6]]
    assert rows[0][:4] == ["1", "1,600", "1,600", "workers"]
    assert rows[2][:4] == ["▸", "5", "8,000", "8,000"]


def test_the_recommendation_comes_with_reasons_cost_and_the_line_to_write() -> None:
    shown = words()
    assert "▸ num_workers=5 2.50× your rate (" in shown
    assert "num_workers=5: the fastest of 4 levels measured, 8,000 items/s." in shown
    assert "Memory at the peak: 400 MiB" in shown
    assert "write DataLoader(…, num_workers=5) in train.py, line 42" in shown
    assert "next limit the loop itself takes 4.00 ms a batch" in shown


def test_what_is_not_worth_it_is_named() -> None:
    loop = Loop(own=make_facts(1, length=LONG), chosen=4, ramp_to=(1, 4, 5), step=0.0039)
    loop.ramp_rates = {4: 248.0}
    (told,) = re.findall(r"not worth it num_workers=4 ([\d.]+)× your rate \(1 run\)", words(loop))
    assert 3.9 < float(told) < 4.1


def test_a_step_bound_loop_needs_few_words() -> None:
    shown = text(Loop(step=1.0))
    assert "step-bound" in shown
    assert "▸" not in shown
    assert "roofline" not in shown


def test_verbose_shows_the_search() -> None:
    assert "the loop still waits" not in text()
    assert "1 worker, prefetch_factor 2: the loop still waits" in text(verbose=True)


def test_a_tune_that_has_measured_nothing_is_shown_as_that() -> None:
    assert "0 runs" in suite_text(make_tune())


def test_a_file_prints_what_was_printed_after_measuring() -> None:
    suite = tuned_suite(Loop())
    assert suite_text(suite) == suite_text(answered(suite))


def test_where_the_loader_is_made_is_known_for_the_next_command() -> None:
    assert loader_place(tuned_suite(Loop())) == "train.py"
    assert loader_place(make_tune()) is None


def labels(suite: Suite) -> list[str]:
    return [
        text.get_text()
        for part in build_figure(suite).subfigs
        for legend in part.legends
        for text in legend.get_texts()
    ]


def test_the_figure_shows_levels_roofline_ceilings_and_the_race() -> None:
    shown = " ".join(labels(tuned_suite(Loop())))
    for words_ in ("measured", "roofline", "the loop", "your settings, confirmed (min–max of 2)"):
        assert words_ in shown


@pytest.mark.parametrize("suite", [tuned_suite(Loop()), tuned_suite(Loop(step=1.0)), make_tune()])
def test_every_tune_can_be_drawn(tmp_path: Path, suite: Suite) -> None:
    draw_suite(suite, tmp_path / "x.svg")
    assert "train.py" in (tmp_path / "x.svg").read_text("utf-8")


def test_without_a_race_none_is_drawn() -> None:
    suite = tuned_suite(Loop())
    kept = tuple(b for b in suite.benchmarks if b.part != RACE)
    assert not any("confirmed" in label for label in labels(
        msgspec.structs.replace(suite, benchmarks=kept)
    ))  # fmt: skip
