"""Looks into a process, in one that holds little else.

What is reachable is walked in seconds that are short here, and after thousands of other tests this
process holds millions of objects.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
HERE = Path(__file__).parent


@pytest.mark.torch
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["causes_session", "finding"])
def test_in_a_process_of_its_own(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"alone_{name}.py"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
