"""A script that goes on with the settings that a tune has found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from feedrate.cli.continuing import command
from feedrate.measure.continuing import Found
from feedrate.measure.wire import ScriptSpec
from feedrate.settings import LoaderSettings
from feedrate.tune_api import answered
from tune_builders import Loop, tuned_suite

pytestmark = pytest.mark.torch

SCRIPT = """
import sys
from torch.utils.data import DataLoader
def main():
    for epoch in range(2):
        train = DataLoader(range(40), batch_size=10)
        valid = DataLoader(range(20), batch_size=10)
        print(sum(len(batch) for batch in train), train.num_workers, len(train))
        print(sum(len(batch) for batch in valid), valid.num_workers)
    sys.exit(int(sys.argv[1]))
if __name__ == "__main__":
    main()
"""


def test_the_loader_that_was_tuned_has_the_settings_and_no_other(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = command(
        ScriptSpec(place=str(script), argv=("7",)), answered(tuned_suite(Loop(chosen=1)))
    )
    found = Found(loader=0, settings=LoaderSettings(num_workers=1, persistent_workers=True))
    words[words.index(str(script)) - 1] = msgspec.json.encode(found).decode()
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["40 1 4", "20 0"] * 2
    assert done.returncode == 7
    assert done.stderr == "feedrate: num_workers=1 for the loader of line 6 in train.py\n"


def test_settings_that_stay_are_pythons_own_business() -> None:
    words = command(ScriptSpec(place="train.py"), answered(tuned_suite(Loop(step=1.0))))
    assert words == [sys.executable, "train.py"]
