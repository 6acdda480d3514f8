"""`seed_worker`: every generator of a worker seeded from the worker's own seed."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_worker(worker_id: int) -> None:
    """Seed random, NumPy and torch of a worker: pass it as ``worker_init_fn``.

    torch gives each worker of each epoch a seed of its own, drawn from the loader's generator; all
    three generators follow from it here. So workers differ, epochs differ, and a loader whose
    ``generator`` is seeded gives the same items again. It is a plain function of a module, which
    spawned workers can load.

    Args:
        worker_id: not used: the worker's number is in its seed already, and a seed made of the
            number alone is the same every epoch.
    """
    del worker_id
    seed = torch.initial_seed()
    torch.manual_seed(seed)
    random.seed(seed)
    # Not the seed itself: random and NumPy are the same generator, and would draw the same numbers.
    np.random.seed(np.random.SeedSequence(seed).generate_state(4))
