"""Makes the recorded texts: ``python tests/analysis/record_smaps.py`` (Linux, some seconds).

Two workers are forked from a main process and work in ten rounds; before the first and after each,
``/proc/PID/smaps_rollup`` of main process and workers is written down, a blank line between texts.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
ROUNDS = 10
COUNT = 60_000
MAPPED = 64 * 2**20

Work = Callable[[Any, int, int], None]


def read_dicts(data: Any, worker: int, step: int) -> None:
    order = random.Random(worker).sample(range(COUNT), COUNT // 2)
    part = len(order) // ROUNDS
    for index in order[step * part : (step + 1) * part]:
        data[index]["name"]


def fill_cache(data: Any, worker: int, step: int) -> None:
    data += [os.urandom(1000) for _ in range(3000)]


def read_mapped(data: Any, worker: int, step: int) -> None:
    part = MAPPED // ROUNDS
    data[step * part : (step + 1) * part].count(b"x")


def work(work_on: Work, data: Any, worker: int, link: Any) -> None:
    for step in range(ROUNDS + 1):
        link.send(step)
        link.recv()
        if step < ROUNDS:
            work_on(data, worker, step)
    link.recv()


def record(name: str, work_on: Work, data: Any) -> None:
    context = multiprocessing.get_context("fork")
    links, processes = [], []
    for worker in range(2):
        here, there = context.Pipe()
        process = context.Process(target=work, args=(work_on, data, worker, there))
        process.start()
        links.append(here)
        processes.append(process)
    texts = []
    for _ in range(ROUNDS + 1):
        for link in links:
            link.recv()
        texts += [
            Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").strip()
            for pid in (os.getpid(), *(process.pid for process in processes))
        ]
        for link in links:
            link.send(None)
    for link, process in zip(links, processes, strict=True):
        link.send(None)
        process.join()
    (RECORDED / name).write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    dicts = [{"name": f"{number:08d}.jpg", "box": [number, number + 1]} for number in range(COUNT)]
    record("list_of_dicts.txt", read_dicts, dicts)
    del dicts
    record("cache.txt", fill_cache, [])
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(MAPPED))
        file.flush()
        with mmap.mmap(file.fileno(), MAPPED, access=mmap.ACCESS_READ) as mapped:
            record("mapped_file.txt", read_mapped, mapped)


if __name__ == "__main__":
    main()
