"""``feedrate bench``: a target that cannot be there."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from feedrate import api
from feedrate.cli.main import app
from feedrate.errors import TargetError


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tarin.py:make"], "there is no file tarin.py: did you mean train.py?"),
        (["train.py:mkae"], "train.py has no 'mkae': did you mean make?"),
        (["train.py:make", "--step", "setp"], "train.py has no 'setp'; it defines make"),
    ],
)
def test_a_misspelt_target_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    def bench(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr(api, "bench", bench)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("def make(): ...\n")
    result = CliRunner().invoke(app, ["bench", *arguments, "-o", "result.json"])
    assert isinstance(result.exception, TargetError)
    assert str(result.exception) == says
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
