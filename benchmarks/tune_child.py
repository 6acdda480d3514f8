"""One value of a grid, in a process of its own: ``python tune_child.py KIND SETTING SECONDS``.

A plain torch loader with these settings, given as JSON; prints items/s as JSON.
"""

from __future__ import annotations

import sys
import time
import warnings

import msgspec
import tune_targets
from torch.utils.data import DataLoader
from tune_plan import Setting

SETTLING_ROUNDS = 4
SETTLING_SECONDS = 2.0
"""How long the queues are given to fill and to even out, at most."""


def measure(key: str, given: Setting, seconds: float) -> float:
    work = tune_targets.work(key)
    options = work.options(num_workers=given.workers, prefetch_factor=given.prefetch)
    if not given.in_order:
        options["in_order"] = False
    iterator = iter(DataLoader(work.dataset, **options))
    turn = max(given.workers, 1)
    rounds = SETTLING_ROUNDS * (given.prefetch or 1)
    work.step(next(iterator))  # the start is no part of it
    start = time.perf_counter()
    for count in range(1, rounds * turn):
        if count >= turn and time.perf_counter() - start > SETTLING_SECONDS:
            break
        work.step(next(iterator))
    count, start = 0, time.perf_counter()
    while True:
        work.step(next(iterator))
        count += 1
        took = time.perf_counter() - start
        if count % turn == 0 and took >= seconds:
            return count * work.batch_size / took


def main() -> None:
    key, given, seconds = sys.argv[1:]
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    value = measure(key, msgspec.json.decode(given, type=Setting), float(seconds))
    print(msgspec.json.encode(value).decode())


if __name__ == "__main__":
    main()
