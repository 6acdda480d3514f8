"""``feedrate bench fashion-mnist``: options that do not go with a fixed protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from feedrate.cli.main import app
from feedrate.errors import UsageError


@pytest.mark.parametrize(
    "option",
    [
        ("--epochs", "3"),
        ("--repeats", "2"),
        ("--plan-epochs", "5"),
        ("--max-batches", "5"),
        ("--step-ms", "0"),
        ("--batch-size", "32"),
        ("--pin-memory", "on"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(option: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["bench", "fashion-mnist", "--data-dir", "x", *option])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        f"{option[0]} does not go with fashion-mnist, whose protocol is fixed: leave it out"
    )


def test_options_of_the_experiment_belong_to_it() -> None:
    result = CliRunner().invoke(app, ["bench", "train.py:make", "--quick"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith("--quick belongs to the published experiment")


def test_the_choice_of_loaders_belongs_to_it() -> None:
    result = CliRunner().invoke(app, ["bench", "train.py:make", "--loaders", "torch"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        "--loaders belongs to the published experiment: feedrate bench fashion-mnist"
    )


@pytest.mark.parametrize("word", ["arena", "", "torch,,feedrate"])
def test_loaders_that_there_are_not_are_refused_before_a_file_is_opened(
    word: str, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    arguments = ["bench", "fashion-mnist", "--data-dir", "x", "-o", str(result), "--loaders", word]
    refused = CliRunner().invoke(app, arguments).exception
    assert isinstance(refused, UsageError)
    assert "torch, feedrate" in str(refused)
    assert not result.exists()
