"""Rescue: what a dead worker held is taken in or sent again, in order, so that nothing is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from multiprocessing.util import is_exiting
from typing import Any

from feedrate.host.files import SystemReader
from feedrate.host.limits import oom_kills
from feedrate.host.shared_files import remove_files_of
from feedrate.host.socket_folders import remove_abandoned_folders
from feedrate.loader.crew import Crew, Worker
from feedrate.loader.ledger import Ledger, Task
from feedrate.loader.recovery import Death, decide, give_up_message, torch_message

log = logging.getLogger("feedrate")

Unfinished = list[tuple[int, Task]]

_FOR_EVER_SECONDS = 3600.0


class Rescue:
    """Deals with the workers of one iterator that end without being asked.

    Args:
        crew: starts new workers.
        replaces: whether the dead are replaced; otherwise the loop ends as torch's does.
        send: sends a batch, by number and index, to a worker.
    """

    def __init__(
        self,
        crew: Crew,
        *,
        replaces: bool,
        send: Callable[[int, Any, Worker], None],
    ) -> None:
        self._crew = crew
        self._replaces = replaces
        self._send = send
        self._reader = SystemReader()
        self._kills = oom_kills(self._reader)
        self.deaths: list[Death] = []
        self.restarts = 0

    def lose(
        self,
        worker: Worker,
        ledger: Ledger,
        *,
        add: Callable[[Worker], None],
        error: BaseException | None,
        first_message: bytes | None = None,
    ) -> None:
        """Deal with a worker that has ended, or whose tensors cannot be fetched.

        What it had sent whole must have been taken in before. One that takes its place is made
        known by ``add`` and sent ``first_message``.

        Raises:
            RuntimeError: it is not to be replaced, or cannot be: with torch's words, or with the
                batch that has cost too many workers.
        """
        while is_exiting() and threading.current_thread() is not threading.main_thread():
            # The program ends, and with it all workers; a thread that still iterates has nobody to
            # tell, and must not be caught by the end in the middle of anything.
            time.sleep(_FOR_EVER_SECONDS)
        code = worker.exit_code()
        if code is None:
            if error is not None:
                raise error  # it lives: the error is no sign of its death
            worker.process.kill()
            code = worker.exit_code()
        self._crew.forget(worker)
        worker.close()
        remove_files_of(worker.process.pid)
        lived = time.monotonic() - worker.started
        remove_abandoned_folders(time.time() - lived)
        unfinished = ledger.unfinished(worker.number)
        if worker.retiring and not unfinished:
            return
        death = self._describe(worker, code, unfinished)
        self.deaths.append(death)
        if is_exiting() or not self._replaces:
            raise RuntimeError(torch_message(death)) from error
        others = [other for other in self._crew.workers if other.active]
        action = decide(death, others=len(others))
        if action == "give_up":
            raise RuntimeError(give_up_message(death)) from error
        if action == "shrink":
            log.warning("a worker was %s; going on with %d workers", death.words, len(others))
            self._share_out(unfinished, death.batch, ledger, others)
            return
        log.warning("a worker was %s; it is replaced", death.words)
        new = self._crew.start(worker.number, len(others) + 1)
        self.restarts += 1
        new.retiring = worker.retiring
        add(new)
        if first_message is not None:
            new.send(first_message)
        self._share_out(unfinished, death.batch, ledger, [new])

    def _describe(self, worker: Worker, code: int | None, unfinished: Unfinished) -> Death:
        kills = oom_kills(self._reader)
        known = kills is not None and self._kills is not None
        more = kills - self._kills if known else 0  # type: ignore[operator]
        self._kills = kills
        number, task = _culprit(worker, unfinished)
        return Death(
            worker=worker.number,
            pid=worker.process.pid,
            exit_code=code,
            memory_kills=more,
            batch=number,
            indices=task.index if task else None,
            attempts=task.attempts if task else 0,
        )

    def _share_out(
        self, unfinished: Unfinished, culprit: int | None, ledger: Ledger, takers: list[Worker]
    ) -> None:
        for place, (number, task) in enumerate(unfinished):
            taker = takers[place % len(takers)]
            ledger.move(number, taker.number, failed=number == culprit)
            self._send(number, task.index, taker)


def _culprit(worker: Worker, unfinished: Unfinished) -> tuple[int, Task] | tuple[None, None]:
    """Return the batch that a worker was at: it takes them in order, and had made some of them."""
    for number, task in unfinished:
        if number not in worker.made:
            return number, task
    return None, None
