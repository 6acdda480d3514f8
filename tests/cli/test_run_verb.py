"""``feedrate run`` from the command line: what follows the script's name is the script's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from feedrate.cli.main import main; main()", "run"]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        input="typed\n",
    )


@pytest.mark.parametrize("words", [["train.py"], ["-m", "train"]])
def test_a_script_gets_its_own_options(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "train.py").write_text("import sys; print(input(), sys.argv[1:]); sys.exit(9)")
    answer = run(*words, "--help", "-m", "--lr=1", "a b", cwd=tmp_path)
    assert answer.stdout == "typed ['--help', '-m', '--lr=1', 'a b']\n"
    assert answer.stderr == ""
    assert answer.returncode == 9


def test_without_a_script(tmp_path: Path) -> None:
    assert "Missing argument" in run(cwd=tmp_path).stderr
    wrong = run("--lr", "1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "is no script" in wrong.stderr
