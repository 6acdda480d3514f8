"""Ctrl-C before a command has anything to show."""

from __future__ import annotations

import subprocess
import sys
import textwrap
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


def test_ctrl_c_before_the_command_is_imported_is_the_same() -> None:
    program = """
        import importlib.abc, runpy, sys

        class Interrupts(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "feedrate.cli.tuning":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupts())
        runpy.run_module("feedrate", run_name="__main__")
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (130, "feedrate: interrupted\n")
