"""The kinds of work as users have them: a plain loader, whose settings nobody has chosen yet.

``feedrate tune benchmarks/tune_targets.py:jpeg`` tunes one; benchmarks/tune_regret.py all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import workloads
from torch.utils.data import DataLoader

ITEMS = 2_000_000
"""An epoch is longer than all that is measured of it, and shuffling does not take seconds."""


def work(key: str) -> workloads.Work:
    """Return a kind of work with an epoch's length."""
    made = workloads.KINDS[key]()
    vars(made.dataset)["length"] = ITEMS
    return made


def loader_and_step(key: str) -> tuple[DataLoader[Any], workloads.Step]:
    made = work(key)
    return DataLoader(made.dataset, **made.options()), made.step


storage = partial(loader_and_step, "storage")
jpeg = partial(loader_and_step, "jpeg")
tiny = partial(loader_and_step, "tiny")
big = partial(loader_and_step, "big")
slow_step = partial(loader_and_step, "slow_step")
uneven = partial(loader_and_step, "uneven")
text = partial(loader_and_step, "text")
memory = partial(loader_and_step, "memory")
