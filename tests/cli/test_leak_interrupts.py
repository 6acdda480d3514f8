"""Ctrl-C at every stage of a real search for leaks: what was learnt is said, nothing is left."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from cli.verb_process import await_file, verb
from feedrate import store

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is a process's own"),
]

SCRIPT = """
    import time
    import torch
    from training import Trainer, make_loader
    if __name__ == "__main__":
        print("imported", flush=True)
        open("began", "w").close()
        time.sleep(WAITS)
        torch.set_num_threads(1)
        trainer, kept = Trainer(), []
        loader = make_loader(80, num_workers=1, persistent_workers=True)
        while True:
            for batch in loader:
                trainer.step(batch)
                kept.append(bytes(50_000))
"""


ARGUMENTS = ("leaks", "--seconds", "3s", "-o", "result.json")


@pytest.mark.parametrize(
    ("begins_after", "waits", "sentence"),
    [
        (None, 600, "interrupted"),
        (r"epoch \d", 0, "interrupted"),
        (r"looked into", 0, "interrupted while the cause was sought; the verdict stands"),
    ],
    ids=["set up", "watch", "second pass"],
)
def test_ctrl_c_says_what_was_learnt_and_leaves_nothing(
    tmp_path: Path, begins_after: str | None, waits: int, sentence: str
) -> None:
    with verb(tmp_path, SCRIPT.replace("WAITS", str(waits)), *ARGUMENTS) as process:
        assert process.stderr is not None
        seen = []
        if begins_after is None:
            await_file(process, tmp_path / "began")
        else:
            for line in process.stderr:
                seen.append(line)
                if re.search(begins_after, line):
                    break
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=60)
    assert process.returncode == 130, (shown, seen, said)
    assert f"feedrate: {sentence}" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert not [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()]
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    if begins_after is None:
        assert left == {"train.py", "began", "tmp"}
        return
    assert left == {"train.py", "began", "tmp", "result.json"}
    assert "train.py" in shown
    suite = store.load(tmp_path / "result.json")
    assert suite.watch is not None
    assert suite.watch.looks
    if begins_after == "looked into":
        assert "Memory grows" in shown
        assert {each.code for each in suite.findings} >= {"memory.main_step_growth"}
