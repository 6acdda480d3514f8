"""Looks into a process, in one that holds little else.

What is reachable is walked in seconds that are short here, and after thousands of other tests this
process holds millions of objects.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch")
HERE = Path(__file__).parent


NAMES = ["causes_session", "finding"]


def run(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"alone_{name}.py"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.torch
@pytest.mark.timeout(300)
def test_in_processes_of_their_own() -> None:
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(run, NAMES))
    for done in ran:
        assert done.returncode == 0, done.stdout
        assert " passed" in done.stdout
