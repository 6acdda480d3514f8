"""One value of a grid, in a process of its own: ``python tune_child.py KIND WORKERS PREFETCH S``.

A plain torch loader with these settings; prints items/s and the share of waiting as JSON.
"""

from __future__ import annotations

import sys
import time
import warnings

import msgspec
import tune_targets
from torch.utils.data import DataLoader
from tune_plan import Setting, Value, setting

SETTLING_ROUNDS = 4
SETTLING_SECONDS = 2.0
"""How long the queues are given to fill and to even out, at most."""


def measure(key: str, given: Setting, seconds: float) -> Value:
    work = tune_targets.work(key)
    options = work.options(num_workers=given.workers, prefetch_factor=given.prefetch)
    iterator = iter(DataLoader(work.dataset, **options))
    turn = max(given.workers, 1)
    rounds = SETTLING_ROUNDS * (given.prefetch or 1)
    work.step(next(iterator))  # the start is no part of it
    start = time.perf_counter()
    for count in range(1, rounds * turn):
        if count >= turn and time.perf_counter() - start > SETTLING_SECONDS:
            break
        work.step(next(iterator))
    count, waited, start = 0, 0.0, time.perf_counter()
    asked = start
    while True:
        batch = next(iterator)
        waited += time.perf_counter() - asked
        work.step(batch)
        count += 1
        asked = time.perf_counter()
        if count % turn == 0 and asked - start >= seconds:
            return Value(count * work.batch_size / (asked - start), waited / (asked - start))


def main() -> None:
    key, workers, prefetch, seconds = sys.argv[1:]
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    value = measure(key, setting(int(workers), int(prefetch)), float(seconds))
    print(msgspec.json.encode(value).decode())


if __name__ == "__main__":
    main()
