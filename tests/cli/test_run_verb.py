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


def test_a_death_that_is_known_is_explained_after_pythons_own_words(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys\n"
        "sys.stdout.write('begun\\n')\n"
        "raise RuntimeError('stack expects each tensor to be equal size, but got [3] at entry 0 "
        "and [4] at entry 1')\n"
    )
    answer = run("train.py", cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "begun\n")
    assert "Traceback (most recent call last)" in answer.stderr
    assert answer.stderr.index("RuntimeError: stack") < answer.stderr.index("crash.collate_size")


def test_a_death_that_is_not_known_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise KeyError('mine')\n")
    answer = run("train.py", cwd=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.rstrip().endswith("KeyError: 'mine'")
