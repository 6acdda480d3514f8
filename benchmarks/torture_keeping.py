"""Who keeps batches: a replay buffer, threads, forked processes. Each checks what it lets go of."""

from __future__ import annotations

import os
import queue
import random
import select
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from torture_content import fingerprint, scribble, size_of

_PATIENCE_SECONDS = 60.0
_MOST_CHILDREN = 3
_MOST_HANDED = 32


@dataclass(slots=True)
class Kept:
    """A batch, and what it has to be until somebody writes into it."""

    number: int
    batch: Any
    print: Any

    @property
    def size(self) -> int:
        return size_of(self.batch)

    def scribble(self, number: int) -> None:
        """Write over it."""
        scribble(self.batch, number)
        self.print = fingerprint(self.batch)


@dataclass(slots=True)
class Tally:
    """What was done and what went wrong; threads add to it."""

    batches: int = 0
    checks: int = 0
    kills: int = 0
    forks: int = 0
    wrong: list[str] = field(default_factory=list)

    def check(self, kept: Kept, where: str) -> None:
        """See whether a batch is still what it was."""
        self.checks += 1
        if fingerprint(kept.batch) != kept.print:
            self.wrong.append(f"batch {kept.number} changed {where}")


class Buffer:
    """Keeps batches up to so many bytes, and lets go of any of them to make room."""

    def __init__(self, limit: int, tally: Tally, rng: random.Random) -> None:
        self._limit = limit
        self._tally = tally
        self._rng = rng
        self._kept: list[Kept] = []
        self.size = 0

    def put(self, kept: Kept) -> None:
        self._kept.append(kept)
        self.size += kept.size
        while self.size > self._limit:
            self._drop()

    def scribble(self) -> None:
        """Write over one of them, which lies between others' slots."""
        if self._kept:
            self._rng.choice(self._kept).scribble(self._rng.randrange(100))

    def _drop(self) -> None:
        kept = self._kept.pop(self._rng.randrange(len(self._kept)))
        self.size -= kept.size
        self._tally.check(kept, "in the replay buffer")

    def clear(self) -> None:
        while self._kept:
            self._drop()


@dataclass(slots=True)
class _Child:
    """A forked process. It looks when ``batches`` more have come, which it is told by a pipe."""

    number: int
    batches: int
    tell: int
    told: float | None = None


class Children:
    """Forked processes that look at a batch after the loop has let go of it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._alive: dict[int, _Child] = {}

    def take(self, kept: Kept, batches: int) -> None:
        """Fork one that looks at the batch so many batches later, unless there are enough."""
        if len(self._alive) >= _MOST_CHILDREN:
            return
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                poll = select.poll()  # select() knows no descriptor above 1023
                poll.register(told, select.POLLIN)
                poll.poll(_PATIENCE_SECONDS * 1000)
                code = int(fingerprint(kept.batch) != kept.print)
            finally:
                os._exit(code)
        os.close(told)
        self._alive[pid] = _Child(kept.number, batches, tell)
        self._tally.forks += 1

    def reap(self) -> None:
        """Another batch has come: tell those to look whose time it is, and take in what they say.

        Only the loop's own thread may.
        """
        for pid, child in list(self._alive.items()):
            child.batches -= 1
            if child.batches <= 0 and child.told is None:
                os.write(child.tell, b".")  # others hold the end too, so closing it says nothing
                os.close(child.tell)
                child.told = time.monotonic()
            if child.told is not None and time.monotonic() - child.told > _PATIENCE_SECONDS:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._alive[pid]
                self._take_in(child, os.waitstatus_to_exitcode(status))

    def _take_in(self, child: _Child, code: int) -> None:
        if child.told is None:
            os.close(child.tell)
        if code == 1:
            self._tally.wrong.append(f"batch {child.number} changed under a forked process")
        elif code:
            self._tally.wrong.append(f"a forked process ended with {code}")

    def wait(self) -> None:
        while self._alive:
            self.reap()
            time.sleep(0.01)


class Hands:
    """Threads that keep batches for a while, write into them, fork, and drop them."""

    def __init__(self, count: int, tally: Tally, children: Children, seed: int) -> None:
        self._tally = tally
        self._children = children
        self._queue: queue.Queue[Kept | None] = queue.Queue(_MOST_HANDED)
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed + i),), daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def take(self, kept: Kept) -> bool:
        """Hand one over; false where they have their hands full."""
        try:
            self._queue.put_nowait(kept)
        except queue.Full:
            return False
        return True

    def _run(self, rng: random.Random) -> None:
        while (kept := self._queue.get()) is not None:
            time.sleep(rng.uniform(0, 0.02))
            if rng.random() < 0.3:
                kept.scribble(rng.randrange(100))
            elif rng.random() < 0.1:
                self._children.take(kept, rng.randint(1, 40))
            self._tally.check(kept, "in a thread")
            del kept  # or it would be kept until there is another

    def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
