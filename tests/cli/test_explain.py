"""``feedrate explain``, as it is called."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from doctor.texts import ITEM, TEXTS, in_worker
from feedrate import store
from feedrate.api import judged
from feedrate.cli.explaining import explain_death
from feedrate.cli.main import app
from feedrate.errors import FeedrateError, FormatError
from feedrate.report.text import suite_text

BUS_ERROR = TEXTS["worker-bus-error"][0]


def test_a_file_is_explained_in_four_lines(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(BUS_ERROR + TEXTS["leaked-resources"][0])
    result = CliRunner().invoke(app, ["explain", str(log)], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    lines = [line[:10].strip() for line in result.output.splitlines()]
    assert [name for name in lines if name in ("why", "do", "here", "log")] == ["why", "do", "here"]
    assert "[crash.shm_exhausted]" in result.output
    assert "leaked" not in result.output
    assert max(map(len, result.output.splitlines())) <= 100


def test_verbose_adds_the_logs_own_line_and_remarks(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(BUS_ERROR + TEXTS["leaked-resources"][0])
    result = CliRunner().invoke(app, ["explain", "-v", str(log)])
    assert "log   ERROR: Unexpected bus error" in result.output
    assert "[leaked_resources]" in result.output


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_pipe_is_read(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["explain", *arguments], input=BUS_ERROR)
    assert result.exit_code == 0, result.output
    assert "standard input" in result.output


def test_json_is_a_document_that_report_shows_again(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", "--json"], input=BUS_ERROR)
    document = json.loads(result.stdout)
    assert (document["format"], document["kind"]) == ("feedrate", "explain")
    (finding,) = document["findings"]
    assert finding["code"] == "crash.shm_exhausted"
    assert finding["why"]
    assert finding["remedy"].startswith("1. ")
    assert finding["quote"].endswith("(line 1, 2 times)")
    suite = store.decode(result.stdout.encode(), "x")
    assert judged(suite) == suite
    assert "[crash.shm_exhausted]" in suite_text(suite)


def test_an_unknown_error_is_shown_and_ends_with_1() -> None:
    result = CliRunner().invoke(app, ["explain"], input=in_worker("KeyError: 'label'", ITEM))
    assert result.exit_code == 1
    assert "KeyError: 'label' (data.py, line 12, in __getitem__" in result.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "standard input is empty: send errors along too (2>&1)"),
        ("\n\n", "standard input is empty"),
        ("epoch 1\n", "no error and no warning that feedrate knows is in standard input"),
    ],
)
def test_nothing_to_explain_is_one_sentence(text: str, says: str) -> None:
    result = CliRunner().invoke(app, ["explain"], input=text)
    assert isinstance(result.exception, FeedrateError)
    assert result.exception.exit_code == 1
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)
    assert (
        json.loads(CliRunner().invoke(app, ["explain", "--json"], input=text).stdout)["findings"]
        == []
    )


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for file, says in ((tmp_path / "none.log", "there is no file"), (tmp_path, "is a folder")):
        result = CliRunner().invoke(app, ["explain", str(file)])
        assert isinstance(result.exception, FormatError)
        assert says in str(result.exception)
    result = CliRunner().invoke(app, ["explain"], input=bytes(range(256)) * 20)
    assert isinstance(result.exception, FormatError)
    assert "is no text" in str(result.exception)


def test_a_death_is_explained_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    explain_death(RuntimeError(BUS_ERROR.strip().splitlines()[-1]))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[crash.shm_exhausted]" in captured.err


def test_a_death_that_is_not_known_is_left_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain_death(KeyError("label"))
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr("feedrate.doctor.explaining.explain_text", None)
    explain_death(RuntimeError("Too many open files"))
    assert capsys.readouterr() == ("", "")
