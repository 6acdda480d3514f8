"""The whole report as text: every figure can be computed again, at any width."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console

from builders import (
    MIB,
    make_benchmark,
    make_facts,
    make_failed_run,
    make_metadata,
    make_peaks,
    make_procedure,
    make_run,
    make_suite,
)
from feedrate import units
from feedrate.analysis.summary import Point, summarize
from feedrate.analysis.verdicts import judge
from feedrate.records import Evidence, Finding, Suite
from feedrate.report.text import print_suite, suite_text

ROW = re.compile(r"^[▸ ]? *(\d+)  ")


def rows(text: str) -> list[list[str]]:
    """Return the cells of all rows that begin with a worker count; gaps are two spaces wide."""
    return [re.split(r" {2,}", line.lstrip("▸ ")) for line in text.splitlines() if ROW.match(line)]


def flowed(text: str) -> str:
    """Return the text without its line breaks."""
    return " ".join(text.split())


def expected(point: Point, base: Point, *, marked: str = "") -> list[str]:
    assert point.rates is not None
    assert base.rates is not None
    assert point.cold_rates is not None
    assert point.startup is not None
    assert point.wait_share is not None
    assert point.peak_total is not None
    assert point.peak_shm is not None
    cells = [
        str(point.workers),
        units.seconds(point.startup.median),
        units.rate(point.cold_rates.median),
        units.rate(point.rates.median) + marked,
        f"({units.rate(point.rates.low)}–{units.rate(point.rates.high)})",
        units.ratio(point.rates.median / base.rates.median),
        units.share(point.wait_share.median),
        units.size(point.peak_total),
        units.size(point.peak_shm),
    ]
    return cells if point.rates.n > 1 else [*cells[:4], *cells[5:]]


def test_every_cell_is_the_summary_of_the_suite() -> None:
    suite = make_suite()
    points = summarize(suite)
    assert rows(suite_text(suite)) == [expected(point, points[0]) for point in points]


def test_the_cells_of_every_part_are_those_of_the_summary(published: Suite) -> None:
    points = summarize(published)
    parts = [points[:7], points[7:14], points[14:17], points[17:]]
    wanted = [expected(point, part[0]) for part in parts for point in part]
    printed = rows(suite_text(published, width=160))
    # the accelerator's two columns, and pin_memory's, come on top
    without = [
        [cell for cell in row if cell not in ("31 %", "45.0 MiB", "off", "on")] for row in printed
    ]
    assert without == wanted
    assert [row[-2:] for row in printed[:14]] == [["31 %", "45.0 MiB"]] * 14
    assert [row[1] for row in printed[17:]] == ["off", "on"]


def test_a_suite_read_from_its_file_prints_the_same(published: Suite) -> None:
    again = msgspec.json.decode(msgspec.json.encode(published), type=Suite)
    assert suite_text(again, verbose=True) == suite_text(published, verbose=True)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_is_wider_than_the_terminal(
    published: Suite, troubled: Suite, width: int, verbose: bool
) -> None:
    for suite in (published, troubled, make_suite()):
        lines = suite_text(suite, width=width, verbose=verbose).splitlines()
        assert max(map(len, lines)) <= width
        assert [line for line in lines if line != line.rstrip()] == []


def test_a_plain_sweep_shows_all_columns_in_80() -> None:
    points = summarize(make_suite())
    text = suite_text(make_suite(), width=80)
    assert "Not shown" not in text
    for point in points:
        assert " ".join(expected(point, points[0])) in [flowed(line) for line in lines_of(text)]


def lines_of(text: str) -> list[str]:
    return [line.lstrip("▸ ") for line in text.splitlines()]


def test_what_does_not_fit_is_named(published: Suite) -> None:
    text = suite_text(published, width=80)
    assert "Not shown in 80 columns: GPU memory." in text
    assert "GPU" not in suite_text(make_suite(), width=80)


def test_piped_text_has_no_colour_codes_and_a_terminal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    piped, terminal = io.StringIO(), io.StringIO()
    print_suite(Console(file=piped, width=100), make_suite())
    print_suite(
        Console(file=terminal, width=100, force_terminal=True, color_system="standard"),
        make_suite(),
    )
    assert "\x1b" not in piped.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == piped.getvalue()
    assert "\x1b" in terminal.getvalue()


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, troubled: Suite) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = io.StringIO()
    print_suite(
        Console(file=terminal, width=100, force_terminal=True, color_system="standard"), troubled
    )
    assert re.findall(r"\x1b\[[0-9;]*3\d", terminal.getvalue()) == []


def test_a_terminal_without_unicode_gets_plain_signs() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    metadata = make_metadata(target="träin.py:make_loader")
    print_suite(Console(file=file, width=100), make_suite(metadata=metadata))
    file.flush()
    text = raw.getvalue().decode("ascii")
    assert "tr?in.py:make_loader" in text
    assert re.search(r"^> +2 ", text, re.MULTILINE)
    assert "(871-889)" in text
    assert "1.76x" in text


def test_the_answer_names_the_fewest_workers_near_the_top_and_what_they_cost() -> None:
    text = suite_text(make_suite())
    assert "2 workers are enough: 880 items/s warm, 99 % of the highest rate, 1.76× that" in text
    assert "Cost: 400 MiB of memory (300 MiB with 0), 150 ms to the first batch" in flowed(text)
    marked = [line for line in text.splitlines() if line.startswith("▸")]
    assert [line.split()[1] for line in marked if ROW.match(line)] == ["2"]


def test_nothing_is_enough_while_more_workers_may_be_faster() -> None:
    rising = flowed(suite_text(make_suite(rates={0: [500.0], 1: [800.0], 2: [1600.0]})))
    assert "2 workers are the fastest, and more were not measured: 1,600 items/s" in rising
    assert "enough" not in rising
    nearly = flowed(suite_text(make_suite(rates={0: [500.0], 1: [950.0], 2: [1000.0]})))
    assert "1 worker is nearly as fast as 2, and more were not measured: 950 items/s" in nearly
    assert "enough" not in nearly


def test_the_answer_says_images_where_the_target_delivers_images(published: Suite) -> None:
    text = flowed(suite_text(published))
    assert "4 workers are enough: 108,782 images/s warm, 91 % of the highest rate" in text
    assert "12 workers are enough: 62,103 images/s warm, 97 % of the highest rate" in text


def test_rows_without_figures_say_why(troubled: Suite) -> None:
    text = suite_text(troubled)
    assert re.search(r"^ +4  3 of 3 runs failed: A worker was killed; use fewer workers\.$", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^ +8  skipped: 8 workers need 2\.00 GiB", text, re.MULTILINE)
    assert re.search(r"^ +16  not measured: the suite ended before it\.$", text, re.MULTILINE)
    assert re.search(r"\n.*400 MiB.*\n +1 of 3 runs failed: A worker was killed", text)
    assert "median of 2 to 3 runs" in text


def test_nothing_measured_is_still_a_report() -> None:
    suite = make_suite([make_benchmark(2, runs=[make_failed_run("The dataset is empty.")])])
    text = suite_text(suite)
    assert "nothing could be measured" in text
    assert re.search(r"^ +2  failed: The dataset is empty\.$", text, re.MULTILINE)
    assert "items/s" not in text
    assert "enough" not in text


def test_a_suite_without_benchmarks_is_its_header() -> None:
    assert suite_text(make_suite([])).startswith("feedrate bench  train.py:make_loader\nhost  ")


def test_tracebacks_are_shown_when_asked_for(troubled: Suite) -> None:
    assert "Traceback" not in suite_text(troubled)
    verbose = suite_text(troubled, verbose=True)
    # the same traceback four times over tells nothing more
    assert verbose.count("Traceback …\nValueError: no such file") == 1
    assert "2 workers, run 3: A worker was killed" in verbose


def test_values_of_every_run_are_shown_when_asked_for() -> None:
    suite = make_suite(rates={0: [500.0, 501.0], 2: [900.0, 901.0]})
    verbose = suite_text(suite, verbose=True, width=120)
    for run in ("500", "501", "900", "901"):
        assert re.search(rf"  {run}  ", verbose)
    assert "each run" not in suite_text(suite)


def test_memory_is_named_for_what_it_is() -> None:
    assert "(PSS)" in suite_text(make_suite())
    peaks = make_peaks(2, memory_kind="rss", shm_bytes=None)
    suite = make_suite([make_benchmark(2, [800.0], run_fields={"peaks": peaks})])
    text = suite_text(suite)
    heads = [line.rstrip() for line in text.splitlines()]
    assert any(line.endswith("memory (RSS,") for line in heads)
    assert any(line.endswith("counted twice)") for line in heads)
    assert "/dev/shm" not in text[text.index("workers") :].splitlines()[0]


def test_epochs_with_new_workers_are_not_called_warm() -> None:
    facts = make_facts(2, persistent_workers=False)
    suite = make_suite(
        [
            make_benchmark(0, [500.0, 502.0]),
            make_benchmark(2, [900.0, 910.0], run_fields={"facts": facts}),
        ]
    )
    text = suite_text(suite)
    points = summarize(suite)
    assert rows(text) == [
        expected(points[0], points[0]),
        expected(points[1], points[0], marked="*"),
    ]
    assert "later epochs" in text
    assert " warm" not in text.split("Findings")[0]
    assert "* persistent_workers is off: workers are started again for each epoch" in text


def test_cold_epochs_are_called_cold() -> None:
    suite = make_suite(
        [
            make_benchmark(n, [rate], run_fields={"later_epochs": 0, "cold_rate": rate})
            for n, rate in ((0, 500.0), (2, 900.0))
        ],
        procedure=make_procedure(epochs=1, repeats=1),
    )
    before = suite_text(suite).split("Findings")[0]
    assert [row[2] for row in rows(before)] == ["500", "900"]
    assert re.search(r"\d warm|^ +warm", before, re.MULTILINE) is None
    assert "No warm epoch was measured: rate and wait are of the cold one." in before


def test_cold_and_warm_rates_never_stand_in_one_column() -> None:
    suite = make_suite(
        [
            make_benchmark(2, [900.0]),
            make_benchmark(4, runs=[make_run(700.0, cold_rate=650.0, later_epochs=0)]),
        ]
    )
    text = suite_text(suite)
    # start-up, cold rate, warm rate, ratio, wait
    assert rows(text)[1][2:6] == ["650", "–", "–", "–"]
    assert "No warm epoch was measured with 4 workers." in text


def test_settings_that_vary_have_a_column_and_what_cannot_be_is_said() -> None:
    suite = make_suite(
        [
            make_benchmark(0, [500.0], left_out=("prefetch_factor needs workers.",)),
            *(
                make_benchmark(
                    2,
                    [rate],
                    prefetch_factor=factor,
                    run_fields={"facts": make_facts(2, prefetch_factor=factor)},
                )
                for factor, rate in ((2, 880.0), (8, 900.0))
            ),
        ]
    )
    text = suite_text(suite)
    assert [row[1] for row in rows(text)] == ["–", "2", "8"]
    assert re.search(r"workers +factor +start-up", text)
    assert "Left out with 0 workers: prefetch_factor needs workers." in text


def test_epochs_that_were_cut_are_said() -> None:
    run = make_run(800.0)
    short = msgspec.structs.replace(
        run, epochs=tuple(msgspec.structs.replace(e, complete=False) for e in run.epochs),
        facts=make_facts(2, length=235),
    )  # fmt: skip
    text = suite_text(make_suite([make_benchmark(2, runs=[short])]))
    assert text.count("Epochs were cut after 20 batches of 235.") == 1


def test_findings_come_warnings_first_and_say_a_remedy_once() -> None:
    findings = (
        Finding(code="a", severity="info", title="Little.", remedy="Measure more."),
        Finding(code="b", severity="error", title="Very bad.", remedy="Stop."),
        Finding(code="c", severity="warning", title="Bad.", remedy="Measure more."),
        Finding(code="d", severity="info", title="Of light.", condition="light"),
    )
    text = suite_text(make_suite(findings=findings))
    assert text[text.index("Findings") :].splitlines() == [
        "Findings",
        " !! Very bad.",
        "    → Stop.",
        " !  Bad.",
        "    → Measure more.",
        " ·  Little.",
        "",
        "Findings: light",
        " ·  Of light.",
    ]


def test_findings_that_are_not_in_the_file_are_judged() -> None:
    suite = make_suite()
    text = flowed(suite_text(suite, width=200))
    assert judge(suite)
    for finding in judge(suite):
        assert finding.title in text
    judged = msgspec.structs.replace(suite, findings=judge(suite))
    assert suite_text(judged, verbose=True) == suite_text(suite, verbose=True)


def test_evidence_is_shown_when_asked_for() -> None:
    evidence = (
        Evidence(name="saved", value=-0.2, unit="s", low=-0.3, high=-0.1),
        Evidence(name="start", value=4, unit="workers"),
        Evidence(name="memory", value=3 * MIB, unit="bytes", low=3 * MIB, high=3 * MIB),
        Evidence(name="share", value=0.25, unit="share"),
        Evidence(name="gain", value=1.5, unit="ratio"),
        Evidence(name="rate", value=12345.6, unit="items/s"),
    )
    suite = make_suite(
        findings=(Finding(code="a", severity="info", title="So.", evidence=evidence),)
    )
    words = (
        "saved −200 ms (−300 ms to −100 ms); start 4 workers; memory 3.00 MiB; share 25 %; "
        "gain 1.50×; rate 12,346 items/s"
    )
    assert words in flowed(suite_text(suite, verbose=True))
    assert "saved" not in suite_text(suite)


def test_the_answer_calls_the_epochs_what_the_table_calls_them() -> None:
    facts = make_facts(2, persistent_workers=False)
    suite = make_suite(
        [
            make_benchmark(0, [500.0, 502.0]),
            make_benchmark(2, [400.0, 410.0], run_fields={"facts": facts}),
        ]
    )
    text = flowed(suite_text(suite))
    assert "0 workers are enough: 501 items/s in later epochs" in text
    assert " warm" not in text


def test_prefetching_is_not_named_with_no_workers() -> None:
    suite = make_suite(
        [
            make_benchmark(0, [500.0]),
            *(
                make_benchmark(count, [rate], prefetch_factor=factor)
                for factor, rate in ((2, 400.0), (4, 410.0))
                for count in (1, 2)
            ),
        ]
    )
    assert "From one run each, 0 workers are enough: 500 items/s" in flowed(suite_text(suite))


def test_verbose_output_does_not_tell_where_the_traceback_is(troubled: Suite) -> None:
    remedy = "The whole traceback: feedrate report FILE -v, or table(verbose=True)."
    assert remedy in flowed(suite_text(troubled))
    assert remedy not in flowed(suite_text(troubled, verbose=True))


@pytest.mark.parametrize("label", ["augmented, 2 workers", "2 workers"])
def test_a_traceback_names_its_condition_once(label: str) -> None:
    suite = make_suite(
        [make_benchmark(2, runs=[make_failed_run("No.")], condition="augmented", label=label)]
    )
    text = suite_text(suite, verbose=True)
    assert "\naugmented, 2 workers, run 1: No." in text
