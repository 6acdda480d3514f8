"""Tortures the arena for minutes, and checks every byte: ``python benchmarks/torture.py``

Four workers and more, batches of random kinds and sizes, kept for random times (in a replay buffer,
by threads, by forked processes), written into, while workers are killed, started and let go, and
epochs broken off. What a batch has to be is a pure function of its number: it is checked as it
arrives and as it is dropped. Memory and descriptors have to stay flat, and nothing may be left.

Writes results/torture.md; ends with 1 where anything is wrong. ``--minutes 5`` is shared among
three ways of starting workers; ``--seed`` for other chances.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from typing import Any

import psutil
import torture_page
from torture_content import Content, Numbers, expected, fingerprint, gather
from torture_keeping import Buffer, Children, Hands, Kept, Tally
from torture_memory import MIB, Look, look, mapped_arenas
from torture_outcome import Config, Outcome

from feedrate.loader.allowance import allowance
from feedrate.loader.dataloader import DataLoader
from feedrate.loader.leases import leases

WORKERS = 4
_PATIENCE_SECONDS = 120


class Killer(threading.Thread):
    """Kills workers at random moments, never the same place twice in a row.

    A batch that cost five workers would be taken for the cause, as it might where other programs
    leave the workers too little time: so some batches have to arrive between two kills.
    """

    _BATCHES_APART = 10

    def __init__(self, torture: Torture, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._torture = torture
        self._rng = rng
        self._last = -1
        self._seen = 0
        self.done = threading.Event()

    def run(self) -> None:
        mean = self._torture.config.kill_seconds
        while not self.done.wait(self._rng.uniform(0.2 * mean, 1.8 * mean)):
            if self._torture.tally.batches < self._seen + self._BATCHES_APART:
                continue
            self._seen = self._torture.tally.batches
            iterator = self._torture.iterator()
            with contextlib.suppress(ProcessLookupError, IndexError, AttributeError, ValueError):
                living = [w for w in iterator.crew if not w.gone and w.number != self._last]
                worker = self._rng.choice(living)
                os.kill(worker.process.pid, self._rng.choice([signal.SIGKILL, signal.SIGSEGV]))
                self._last = worker.number
                self._torture.tally.kills += 1
            living = worker = iterator = None  # type: ignore[assignment]


class Torture:
    """One loop under torture."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.tally = Tally()
        self._rng = random.Random(config.seed)
        self._children = Children(self.tally)
        self._hands = Hands(2, self.tally, self._children, config.seed)
        self._buffer = Buffer(config.kept_bytes, self.tally, self._rng)
        self._numbers = Numbers()
        self._loader: Any = None
        self._replaced = 0
        self._looks: list[Look] = []
        self._start = time.monotonic()
        self._next_look = self._start

    def iterator(self) -> Any:
        """Return the iterator whose workers are to be killed, if there is one."""
        loader = self._loader
        return None if loader is None else loader._latest()

    def run(self) -> Outcome:
        known = _children()
        killer = Killer(self, random.Random(self.config.seed + 1))
        killer.start()
        try:
            while not self._over():
                self._use_a_loader()
        finally:
            killer.done.set()
            killer.join()
            self._loader = None
            self._hands.stop()
            self._buffer.clear()
            self._children.wait()
        leases.settle()  # as the next batch of any loader would
        left = _left_over(known)
        return Outcome(self.config, self.tally, self._replaced, tuple(self._looks), left)

    def _over(self) -> bool:
        late = time.monotonic() - self._start > self.config.seconds
        return late or len(self.tally.wrong) >= self.config.most_wrong

    def _use_a_loader(self) -> None:
        """Make a loader and go through some epochs, of which some are broken off."""
        method = self.config.method
        persistent = method != "fork" or self._rng.random() < 0.5
        self._loader = DataLoader(
            Content(),
            batch_sampler=self._numbers,  # type: ignore[arg-type]
            num_workers=WORKERS,
            collate_fn=gather,
            persistent_workers=persistent,
            in_order=self.config.in_order,
            multiprocessing_context=method,
            on_worker_death="replace",
            prefetch_factor=self._rng.choice([1, 2, 4]),
        )
        for _ in range(self._rng.randint(2, 8) if method == "fork" else 10**9):
            self._one_epoch()
            self._replaced += 0 if persistent else self._loader.stats().restarts
            if self._over():
                break
        self._replaced += self._loader.stats().restarts if persistent else 0
        self._loader = None

    def _one_epoch(self) -> None:
        first = self._numbers.first = self._numbers.first + self._numbers.length
        length = self._numbers.length = self._rng.randint(20, 300)
        stop = self._rng.randint(1, length) if self._rng.random() < 0.2 else length
        due = set(range(first, first + length))
        for count, (number, batch) in enumerate(self._loader, 1):
            if number not in due or (self.config.in_order and number != first + count - 1):
                self.tally.wrong.append(f"batch {number} came twice, or out of its place")
            due.discard(number)
            self._take(number, batch)
            del batch
            self._move()
            if self._over() or (count == stop and stop < length):
                return
        if due:
            self.tally.wrong.append(f"{len(due)} batches of {length} did not come")

    def _take(self, number: int, batch: Any) -> None:
        self.tally.batches += 1
        kept = Kept(number, batch, fingerprint(batch))
        if kept.print != fingerprint(expected(number)):
            self.tally.wrong.append(f"batch {number} arrived wrong")
        if self._rng.random() < 0.3:
            kept.scribble(number)
        fate = self._rng.random()
        if fate < 0.25:
            self._buffer.put(kept)
            return
        if fate < 0.45 and self._hands.take(kept):
            return
        if self._rng.random() < self.config.fork_share:
            self._children.take(kept, self._rng.randint(1, 40))
        elif fate < 0.60:
            time.sleep(self._rng.uniform(0, 0.004))  # a step, in which workers fill what is free
        self.tally.check(kept, "in the step")

    def _move(self) -> None:
        """Do what is done now and then."""
        if self._rng.random() < self.config.move_share:
            if self._rng.random() < 0.5 and self._loader.active_workers < WORKERS + 2:
                self._loader.grow()
            elif self._loader.active_workers > 2:
                self._loader.shrink()
        elif self._rng.random() < 0.1:
            self._buffer.scribble()
        self._children.reap()
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + self.config.window_seconds
            self._looks.append(look(now - self._start, self.tally.batches, self._buffer.size))


def torture(config: Config) -> Outcome:
    """Run it; warnings of more workers than CPUs and of forks beside threads are expected."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork")
        return Torture(config).run()


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _left_over(known: set[int]) -> tuple[str, ...]:
    """Return what should be gone by now."""
    gc.collect()
    left = []
    if arenas := mapped_arenas():
        left.append(f"{arenas} mappings of arenas are left")
    if allowance.used:
        left.append(f"{allowance.used} bytes of slots are taken for used")
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            command = " ".join(child.cmdline())
            # multiprocessing starts these once, and keeps them to the end.
            kept = any(name in command for name in ("resource_tracker", "forkserver"))
            if child.pid not in known and not kept:
                left.append(f"process {child.pid} is left: {command}")
    return tuple(left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    whole = given.seconds or 60 * given.minutes
    logging.getLogger("feedrate").setLevel(logging.ERROR)

    def config(method: str, share: float, **options: Any) -> Config:
        seconds = share * whole
        window = min(1.0, seconds / 40)
        return Config(method, seconds, given.seed, window_seconds=window, **options)

    # A worker that is not forked takes seconds to start.
    slow: dict[str, Any] = {"kill_seconds": 10.0, "move_share": 0.002, "kept_bytes": 4 * MIB}
    configs = [
        config("fork", 0.3),
        config("forkserver", 0.35, in_order=False, **slow),
        config("spawn", 0.35, **slow),
    ]
    outcomes = []
    for each in configs:
        faulthandler.dump_traceback_later(each.seconds + _PATIENCE_SECONDS, exit=True)
        outcomes.append(torture(each))
        faulthandler.cancel_dump_traceback_later()
    torture_page.write(outcomes, f"torture.py --seed {given.seed}", WORKERS)
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
