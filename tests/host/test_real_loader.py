"""A small DataLoader program, looked at from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from feedrate.host.files import FakeReader, SystemReader
from feedrate.host.load import tree_cpu_seconds
from feedrate.host.memory import PacedSampler, TreeSampler

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="PSS is read from /proc"),
]

MIB = 1024**2
SHARED = 64 * MIB
PRIVATE = 16 * MIB
OPENED = 25

PROGRAM = f"""\
import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset

SHARED = bytearray(os.urandom(1024)) * ({SHARED} // 1024)

class Data(Dataset):
    own = None

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if self.own is None:
            self.own = bytearray(b"x" * {PRIVATE})
            self.files = [open(os.devnull) for _ in range({OPENED})]
        # a view of the pages that were there before the fork, touched and not written
        sum(memoryview(SHARED)[::4096])
        return torch.zeros(1024)

if __name__ == "__main__":
    batches = iter(DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="fork"))
    next(batches), next(batches)
    print("running", flush=True)
    sys.stdin.readline()
    del batches
    print("ended", flush=True)
    sys.stdin.readline()
"""


def test_workers_of_a_running_loader(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as main:
        assert main.stdin is not None
        assert main.stdout is not None
        sampler = TreeSampler(main.pid)
        paced = PacedSampler(sampler)
        without_proc = TreeSampler(main.pid, FakeReader({}))
        assert main.stdout.readline() == "running\n"

        snapshot = paced.poll(force=True)
        rss_only = without_proc.sample(0.0)
        seconds = tree_cpu_seconds(SystemReader(), main.pid)
        main.stdin.write("\n")
        main.stdin.flush()
        assert main.stdout.readline() == "ended\n"
        ended = paced.poll(force=True)
        main.communicate("\n")
    assert main.returncode == 0
    assert sampler.sample(1.0) is None

    assert snapshot is not None
    assert snapshot.worker_count == 2
    workers, both = snapshot.workers, snapshot.main
    assert workers is not None
    assert workers.pss is not None
    assert both.pss is not None
    assert workers.uss is not None
    # SHARED is mapped three times and counted once: so much less PSS than RSS, and torch's
    # libraries come on top.
    assert both.pss + workers.pss + 2 * SHARED <= both.rss + workers.rss
    # What each worker allocated is its own, and the shared pages are not.
    assert 2 * PRIVATE <= workers.uss <= workers.pss <= workers.rss
    assert workers.uss < 2 * PRIVATE + SHARED
    assert snapshot.worker_descriptors is not None
    assert snapshot.worker_descriptors >= 2 * OPENED
    assert snapshot.main_descriptors is not None
    assert seconds is not None
    assert seconds > 0

    assert rss_only is not None
    assert rss_only.worker_count == 2
    assert rss_only.main.pss is None
    assert rss_only.workers is not None
    assert rss_only.workers.rss > 2 * SHARED

    assert ended is not None
    assert (ended.worker_count, ended.workers) == (0, None)
    peaks = paced.peaks(shm_before=None)
    assert peaks is not None
    assert (peaks.memory_kind, peaks.workers, peaks.worker_bytes) == ("pss", 2, workers.pss)
    assert peaks.worker_descriptors == snapshot.worker_descriptors
