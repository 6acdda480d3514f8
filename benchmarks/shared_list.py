"""`feedrate.SharedList` against a plain list: the time of a read, and what workers copy.

``python benchmarks/shared_list.py`` writes results/shared_list.md: random reads of a million
records, and the private memory of four forked workers over three epochs of reading them all.
``--records N`` makes it smaller, and prints without writing.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tables
from torch.utils.data import DataLoader, Dataset

from feedrate import units
from feedrate.host.memory import parse_smaps_rollup
from feedrate.remedies.shared_list import SharedList

RECORDS = 1_000_000
READS = 200_000
REPEATS = 7
WORKERS = 4
EPOCHS = 3
BATCH = 100
"""Small, so that little is read before the first look."""

Read = Callable[[Sequence[Any], Sequence[int]], None]


def make(number: int) -> dict[str, Any]:
    return {
        "path": f"train/{number % 1000:04d}/{number:08d}.jpg",
        "label": number % 1000,
        "box": [number % 640, number % 480, number % 320 + 1, number % 240 + 1],
    }


def look_up(records: Sequence[Any], order: Sequence[int]) -> None:
    for index in order:
        records[index]


def use_fields(records: Sequence[Any], order: Sequence[int]) -> None:
    """What a dataset does with a record before it opens the file."""
    for index in order:
        record = records[index]
        left, upper, width, height = record["box"]
        f"/data/{record['path']}"
        (left, upper, left + width, upper + height, record["label"])


def seconds_per_read(read: Read, records: Sequence[Any], order: Sequence[int]) -> float:
    begin = time.perf_counter()
    read(records, order)
    return (time.perf_counter() - begin) / len(order)


def compare(read: Read, plain: Sequence[Any], shared: Sequence[Any]) -> list[tuple[float, float]]:
    """Return seconds per read of both lists, in turns."""
    generator = random.Random(0)
    found = []
    for _ in range(REPEATS):
        order = [generator.randrange(len(plain)) for _ in range(min(READS, len(plain)))]
        found.append((seconds_per_read(read, plain, order), seconds_per_read(read, shared, order)))
    return found


class Records(Dataset[int]):
    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> int:
        return int(self.records[index]["label"])


def read_workers(iterator: Any) -> tuple[list[int], list[int]]:
    """Return Private_Dirty and USS of each worker."""
    readings = [
        parse_smaps_rollup(Path(f"/proc/{worker.pid}/smaps_rollup").read_text("utf-8"))
        for worker in iterator._workers
    ]
    return [each.private_dirty or 0 for each in readings], [each.uss or 0 for each in readings]


def growth(records: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Return the workers' readings after the first batches and after each epoch."""
    loader = DataLoader(
        Records(records),
        batch_size=BATCH,
        shuffle=True,
        num_workers=WORKERS,
        persistent_workers=True,
        multiprocessing_context="fork",
        collate_fn=sum,
    )
    expected = sum(number % 1000 for number in range(len(records)))
    found = []
    for _ in range(EPOCHS):
        total = 0
        iterator = iter(loader)
        for count, batch in enumerate(iterator):
            total += batch
            if not found and count == WORKERS - 1:  # each worker has made its first batch
                found.append(read_workers(iterator))
        assert total == expected
        found.append(read_workers(iterator))
    return found


def read_rows(plain: Sequence[Any], shared: Sequence[Any]) -> list[list[str]]:
    rows = []
    for name, read in (("looked up", look_up), ("looked up, fields used", use_fields)):
        pairs = compare(read, plain, shared)
        ratios = [one / other for other, one in pairs]
        rows.append(
            [
                name,
                units.seconds(statistics.median(other for other, _ in pairs)),
                units.seconds(statistics.median(one for _, one in pairs)),
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
            ]
        )
        print(rows[-1], file=sys.stderr)
    return rows


def growth_rows(name: str, readings: list[tuple[list[int], list[int]]]) -> list[list[str]]:
    rows = []
    for field, place in (("Private_Dirty", 0), ("USS", 1)):
        series = [reading[place] for reading in readings]
        most = [
            max(now - first for now, first in zip(after, series[0], strict=True))
            for after in series[1:]
        ]
        rows.append([f"{name}, {field}", *(f"{value / 2**20:.2f}" for value in most)])
        print(rows[-1], file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    count = parser.parse_args().records
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    shared = SharedList(map(make, range(count)))
    # Before there is a plain list, so that these workers inherit nothing of it.
    grown = growth_rows("SharedList", growth(shared))
    plain = [make(number) for number in range(count)]
    gc.collect()
    reads = read_rows(plain, shared)
    grown = growth_rows("list", growth(plain)) + grown
    reads_table = tables.table(["A record is", "list", "SharedList", "ratio (min–max)"], reads)
    after = [f"{number} epoch{'s' * (number > 1)}" for number in range(1, EPOCHS + 1)]
    growth_table = tables.table(["MiB after", *after], grown)
    about_reads = (
        f"Random reads, {REPEATS} rounds of {min(READS, count):,} in turns, medians (goal: within "
        "2× of the plain list's). A plain list hands out an object that is there and touches "
        "nothing of it; each read of a SharedList makes the record anew, for its fields to be used:"
    )
    about_growth = (
        f"How much the memory of {WORKERS} forked workers grew from their first batch on, while "
        "they read all records shuffled: MiB of the worker that grew most (goal: below 1 MiB for "
        "SharedList):"
    )
    page = (
        "# feedrate.SharedList against a plain list",
        tables.made_by("shared_list.py"),
        f"{count:,} records such as `{make(42)}`; {shared!r}.",
        about_reads,
        reads_table,
        about_growth,
        growth_table,
    )
    if count == RECORDS:
        tables.write("shared_list.md", *page)
    else:
        print("\n\n".join(page))


if __name__ == "__main__":
    main()
