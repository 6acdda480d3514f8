"""The copy that ``--dry`` works in, at every end of the process that made it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a killed process leaves its copy")

PROGRAM = """\
import sys
from pathlib import Path
from feedrate.cli.dry_run import copied_folder

with copied_folder() as copied:
    Path("written.txt").touch()
    print(copied.copy, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, None])
def test_nothing_of_it_stays(tmp_path: Path, number: int | None) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    (work / "train.py").touch()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=work,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        copy = Path(process.stdout.readline().strip())
        assert sorted(path.name for path in copy.iterdir()) == ["train.py", "written.txt"]
        (remover,) = psutil.Process(process.pid).children()
        if number is not None:
            process.send_signal(number)
    remover.wait(timeout=60)
    assert list(temporary.iterdir()) == []
    assert [path.name for path in work.iterdir()] == ["train.py"]
