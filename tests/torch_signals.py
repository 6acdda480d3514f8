"""torch's handler of SIGCHLD, for tests in whose course it is taken away in this very process.

torch sets it once in a process. Gone, workers that die in later tests would not be named.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def torchs_handler_comes_back() -> Iterator[None]:
    """Let torch set its handler, and set it again after the tests of a file."""
    from torch.utils.data import DataLoader

    for _ in DataLoader([0], num_workers=1):  # type: ignore[arg-type]
        pass
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, before)
