"""``feedrate run``: the script's own behaviour, on a loader that grows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watching import TARGETS, line_of

from feedrate.cli.running import command


def both(script: Path, *argv: str, **options: Any) -> tuple[Any, Any]:
    """Return how it ends under Python and under ours."""
    return tuple(
        subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
            cwd=script.parent,
            **options,
        )
        for words in (
            [sys.executable, str(script), *argv],
            command(str(script), *argv),
        )
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    "source",
    [
        "import sys; print(input(), sys.argv); sys.exit(7)",
        "raise SystemExit('no data')",
        "def f():\n  1/0\nf()",
        "def f():\n  raise KeyError('a') from ValueError(3)\ntry:\n  f()\nexcept KeyError:\n  1/0",
        "(",
        "import sys\nsys.excepthook = lambda *_: print('own hook')\n1/0",
        "import atexit; atexit.register(print, 'at the end'); import os; print(os.getcwd())",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt",
    ],
)
def test_input_output_errors_and_exit_code_are_pythons(tmp_path: Path, source: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(source)
    plain, ours = both(script, "--lr", "1", input="typed\n")
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)
    assert ours.returncode == plain.returncode


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    answer = subprocess.run(
        command("nowhere.py"),
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert answer.returncode == 4
    assert answer.stderr == "feedrate: nowhere.py cannot be read (No such file or directory)\n"


@pytest.mark.torch
def test_a_training_runs_on_the_elastic_loader() -> None:
    pytest.importorskip("torch")
    plain, ours = both(TARGETS / "script_plain.py", "2", "800")
    assert plain.returncode == ours.returncode == 0
    assert ours.stdout == plain.stdout == "trained 400\n"
    assert plain.stderr == ""
    (line,) = ours.stderr.splitlines()
    assert line.startswith("feedrate: num_workers=")
    number = line_of("script_plain.py", " loader = DataLoader(")
    assert f"for the loader of line {number} in script_plain.py" in line


@pytest.mark.torch
def test_all_that_a_script_can_see_of_its_loaders_is_as_under_python() -> None:
    pytest.importorskip("torch")
    parts = ("ordinary", "changing", "within", "breaking", "trained")
    plain, ours = both(TARGETS / "script_tells_all.py", "7", *parts)
    assert ours.stdout.splitlines() == plain.stdout.splitlines()
    said = [line for line in ours.stderr.splitlines() if not line.startswith("feedrate: ")]
    assert said == plain.stderr.splitlines() == ["on standard error"]
    assert ours.returncode == plain.returncode == 7
    assert len(plain.stdout.splitlines()) > 80


@pytest.mark.torch
def test_an_iterable_dataset_and_a_class_of_its_own_stay_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        "from script_odd import Own, Stream, Numbers, train\n"
        "from torch.utils.data import DataLoader\n"
        "from itertools import islice\n"
        "train(Own(Numbers(8), batch_size=4), epochs=1)\n"
        "print(len(list(islice(DataLoader(Stream(), batch_size=4), 3))))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(TARGETS)}
    plain, ours = both(script, env=environment)
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr) == ("3\n", "")


@pytest.mark.torch
def test_ctrl_c_ends_the_script_and_its_workers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        "from training import *\n"
        "trainer = Trainer()\n"
        "print('begins', flush=True)\n"
        "for batch in make_loader(400_000, 0.001):\n"
        "    trainer.step(batch)\n"
        "    if trainer.steps == 3: print('trains', flush=True)\n"
    )
    process = subprocess.Popen(
        command(str(script)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TARGETS)},
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "trains\n":
                process.send_signal(signal.SIGINT)
                break
        _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in said
    assert "feedrate/measure" not in said
