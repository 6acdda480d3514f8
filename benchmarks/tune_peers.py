"""Asks a tuner from PyPI what it would choose: ``python tune_peers.py TUNER KIND``.

Prints its choice, or why there is none, as JSON in the last line. Each is used as its documentation
says, with what it needs to work here at all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import torch
import tune_targets
from tune_plan import HELPER, LOADTUNE, NOTHING_SET, Setting, setting

_KIND = "FEEDRATE_KIND_OF_WORK"
HELPER_ITEMS = 50_000
"""The helper goes through shares of an epoch, 3 % and more, for each of its tests: with an epoch of
millions of items it would not end. CIFAR-10 has as many as this to train on."""


def loadtune(key: str) -> Setting:
    """Ask its command, with this file as the workload."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "loadtune.cli", "tune", __file__, "--no-plots"]
        done = subprocess.run(
            [*command, "--out", str(Path(folder) / "report.md")],
            env=os.environ | {_KIND: key},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return chosen_by_loadtune(done.stdout)


def chosen_by_loadtune(printed: str) -> Setting:
    """Return what its command has printed as the best; where it names none, nothing changes."""
    best = re.search(r"best overall: (.*?) — ", printed)
    if best is None:
        return NOTHING_SET
    named = dict(part.split("=") for part in best[1].split(", ") if "=" in part)
    prefetch = named.get("prefetch")
    return setting(int(named["workers"]), int(prefetch) if prefetch else None)


def get_workload() -> Any:
    """Return the work for loadtune, which makes the loader itself."""
    from loadtune import Workload

    work = tune_targets.work(os.environ[_KIND])

    def train_step(model: Any, optimizer: Any, batch: Any, device: Any) -> torch.Tensor:
        work.step(batch)
        return torch.zeros(())

    return Workload(
        name=work.name,
        make_dataset=lambda: work.dataset,
        make_model=lambda: torch.nn.Linear(1, 1),
        make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        train_step=train_step,
        default_batch_size=work.batch_size,
        collate_fn=work.collate,
    )


def helper(key: str) -> Setting:
    """Ask its function. It has no place for a step or a collate function.

    It waits for CUDA after each batch, where there is none too, so that all of its tests fail; and
    its progress divides by a logarithm that is 0 with two CPUs. Both are left out here. It reads
    and writes a file in the current folder.
    """
    work = tune_targets.work(key)
    vars(work.dataset)["length"] = HELPER_ITEMS
    torch.cuda.synchronize = lambda device=None: None
    from dataloader_param_helper import core

    core.DataloaderParamHelper.print_progress_message = lambda *_, **__: None
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = core.find_optimal_params(work.dataset, torch.device("cpu"), work.batch_size)
    if not found["num_workers"]:
        raise RuntimeError("all of its tests failed")
    return setting(found["num_workers"], found["prefetch_factor"])


def main() -> None:
    name, key = sys.argv[1:]
    said: Setting | str
    try:
        said = {LOADTUNE: loadtune, HELPER: helper}[name](key)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(msgspec.json.encode(said).decode())


if __name__ == "__main__":
    main()
