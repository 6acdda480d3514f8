"""Ctrl-C at every stage of a real tune: one sentence, what was learnt is kept, nothing is left."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")

from cli.verb_process import await_file, verb
from feedrate import store

pytestmark = pytest.mark.torch

ARGUMENTS = ("tune", "--budget", "8s", "--max-workers", "4", "-o", "result.json")


SCRIPT = """
    import torch
    from training import Trainer, make_loader
    if __name__ == "__main__":
        torch.set_num_threads(1)
        trainer = Trainer()
        for number, batch in enumerate(make_loader(1_000_000, 0.005, num_workers=1)):
            trainer.step(batch)
            if number == 20:
                open("trains", "w").close()
"""
"""Its items wait, and more workers pay."""


@pytest.mark.parametrize(
    ("begins_after", "parts"),
    [
        (None, set()),
        (r"\d workers?: ", {"look", "ramp"}),
        (r"your settings, round 1: ", {"look", "ramp", "confirmation"}),
    ],
    ids=["look", "ramp", "race"],
)
def test_ctrl_c_keeps_what_was_learnt_and_leaves_nothing(
    tmp_path: Path, begins_after: str | None, parts: set[str]
) -> None:
    with verb(tmp_path, SCRIPT, *ARGUMENTS) as process:
        assert process.stderr is not None
        seen = []
        if begins_after is None:
            await_file(process, tmp_path / "trains")
        else:
            for line in process.stderr:
                seen.append(line)
                if re.search(begins_after, line):
                    break
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=60)
    assert process.returncode == 130, (shown, seen, said)
    assert said.splitlines()[-1].startswith("feedrate: interrupted")
    assert "Traceback" not in said
    assert not list((tmp_path / "tmp").rglob("*.tmp"))
    left = {path.name for path in tmp_path.iterdir()}
    if not parts:
        assert left <= {"train.py", "trains", "tmp", "result.json"}
        return
    assert left == {"train.py", "trains", "tmp", "result.json"}
    suite = store.load(tmp_path / "result.json")
    assert {benchmark.part for benchmark in suite.benchmarks} == parts
    assert suite.recommendation is None
    assert "train.py" in shown
