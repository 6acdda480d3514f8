"""``feedrate report``, as it is called."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from builders import make_suite
from feedrate import store
from feedrate.cli.main import app
from feedrate.errors import FormatError, UsageError


def test_a_result_is_shown_and_drawn_from_the_file_alone(tmp_path: Path) -> None:
    file, figure = tmp_path / "x.json", tmp_path / "x.svg"
    store.save(make_suite(rates={0: [100.0], 2: [200.0]}), file)
    shown = CliRunner().invoke(app, ["report", str(file)])
    assert shown.exit_code == 0, shown.output
    assert "2 workers" in shown.output
    drawn = CliRunner().invoke(app, ["report", str(file), "-o", str(figure)])
    assert drawn.exit_code == 0, drawn.output
    assert figure.stat().st_size


@pytest.mark.parametrize("changes", [{"usable_cpus": 0.0, "logical_cpus": 0}])
@pytest.mark.parametrize("options", [[], ["-o", "x.png"]])
def test_values_that_no_measuring_gives_are_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, float],
    options: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = make_suite(rates={0: [100.0], 2: [200.0]})
    suite = msgspec.structs.replace(
        suite, metadata=msgspec.structs.replace(suite.metadata, **changes)
    )
    store.save(suite, "edited.json")
    result = CliRunner().invoke(app, ["report", "edited.json", *options])
    assert isinstance(result.exception, FormatError)
    assert str(result.exception).startswith("edited.json holds values that no measuring gives (")
    assert "Traceback" in result.exception.details


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--figure", "x.png"], "report draws with -o, not with --figure as bench does: -o x.png"),
        (["-o", "x.json"], "x.json is a result's name; a result is a file already, and --json"),
    ],
)
def test_what_is_right_for_bench_is_told_apart(options: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["report", "sweep.json", *options])
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
