"""``feedrate tune`` where memory or CPUs are short: real control groups, whole commands."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch")

from feedrate.records import Suite
from feedrate.store.document import decode
from real_groups import cpu_group, kills, memory_group

pytestmark = [pytest.mark.torch, pytest.mark.needs_root, pytest.mark.timeout(400)]

MIB = 2**20

# Enters the group before anything else, so that all that it takes and starts is counted there.
ENTER = """\
import os, sys
with open(sys.argv.pop(1) + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
from feedrate.cli.main import main
main()
"""

TRAINING = """
    import sys
    import time
    import torch
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    held = []

    class Waits(Dataset):
        '''Items wait for storage; a worker holds 400 MiB of its own from the first one on.'''

        def __len__(self):
            return 20_000

        def __getitem__(self, index):
            if not held:
                held.append(b"x" * (400 * 2**20))
            time.sleep(0.01)
            return torch.ones(8), index % 2

    class Computes(Dataset):
        '''Items that take 4 ms of CPU time.'''

        def __len__(self):
            return 20_000

        def __getitem__(self, index):
            end = time.thread_time() + 0.004
            while time.thread_time() < end:
                pass
            return torch.ones(8), index % 2

    if __name__ == "__main__":
        model = torch.nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        dataset = {"waits": Waits, "computes": Computes}[sys.argv[1]]()
        while True:
            for x, y in DataLoader(dataset, batch_size=4, num_workers=int(sys.argv[2])):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
"""


def tune(group: Path, folder: Path, *arguments: str) -> Suite:
    (folder / "train.py").write_text(textwrap.dedent(TRAINING))
    words = ["tune", "--json", "--budget", "20s", "train.py", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", ENTER, str(group), *words],
        cwd=folder,
        env=os.environ | {"XDG_CACHE_HOME": str(folder), "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    suite = decode(done.stdout, "stdout")
    failed = [run.error for each in suite.benchmarks for run in each.runs if run.error is not None]
    assert not failed, failed
    return suite


def levels(suite: Suite) -> list[int]:
    """Return the worker counts of all windows that were measured."""
    runs = (run for each in suite.benchmarks for run in each.runs)
    return [window.level for run in runs for window in run.windows]


def test_memory_and_half_a_core_are_kept_to(tmp_path: Path) -> None:
    # Side by side: one waits nearly all the time, and the other may use half a core.
    (tmp_path / "waits").mkdir()
    (tmp_path / "computes").mkdir()
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(memory_for_few_workers_kills_nobody, tmp_path / "waits")
        computes = pool.submit(half_a_core_of_computing_needs_no_second, tmp_path / "computes")
    waits.result()
    computes.result()


def memory_for_few_workers_kills_nobody(folder: Path) -> None:
    with memory_group(2048 * MIB) as (group, version_2):
        suite = tune(group, folder, "waits", "1")
        assert kills(group, version_2=version_2) == 0
    assert suite.recommendation is not None, msgspec.to_builtins(suite.findings)
    chosen = suite.recommendation.settings.num_workers
    assert 2 <= chosen <= 4  # 5 would hold 2000 MiB, and the main process needs some too
    assert max(levels(suite)) <= 4


def half_a_core_of_computing_needs_no_second(folder: Path) -> None:
    with cpu_group(0.5) as group:
        suite = tune(group, folder, "computes", "1")
    assert suite.metadata.usable_cpus == 0.5
    chosen = suite.recommendation.settings.num_workers if suite.recommendation else 1
    assert chosen <= 1, msgspec.to_builtins(suite.findings)
