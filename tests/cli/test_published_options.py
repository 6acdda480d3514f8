"""``feedrate bench fashion-mnist``: options that do not go with a fixed protocol."""

from __future__ import annotations

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
