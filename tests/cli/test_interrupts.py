"""Ctrl-C before a command has anything to show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from feedrate import store
from feedrate.cli.main import main


def test_ctrl_c_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "x.json").touch()
    monkeypatch.setattr(store, "load", interrupted)
    monkeypatch.setattr(sys, "argv", ["feedrate", "report", str(tmp_path / "x.json")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert capsys.readouterr().err == "feedrate: interrupted\n"
