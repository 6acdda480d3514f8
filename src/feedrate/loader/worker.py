"""The worker's side: torch's own loop, between an inbox and an outbox of ours.

torch's ``_worker_loop`` is run unchanged: seeds, worker info, errors and fetching are its. It asks
an index queue for work and puts batches into a data queue; both are ends of the worker's channel.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

from feedrate.loader.channel import Channel, Closed, FlushingSender
from feedrate.loader.short_waits import ShortWaits
from feedrate.loader.torch_private import run_worker_loop, wrap_exception
from feedrate.loader.transport import Encoder, pack

STOP = b""
"""The message that ends a worker: no pickle is empty."""


class Inbox:
    """What torch's loop takes for its index queue; it also answers for the done event."""

    def __init__(self, channel: Channel, encoder: Encoder) -> None:
        self._channel = channel
        self._encoder = encoder
        self._short = ShortWaits()
        self._stopped = False
        self._waiting: list[bytes] = []
        self.asked = 0.0

    def get(self, timeout: float | None = None) -> Any:
        """Return the next piece of work; ``None`` once the loop has said stop, or is gone.

        Stop overtakes the work before it, which nobody waits for any more.

        Raises:
            queue.Empty: none came in time.
        """
        self._read()
        if not self._waiting and not self._stopped:
            seconds = 3600.0 if timeout is None else timeout
            self._short.wait(self._look, lambda: self._channel.wait(seconds))
            self._read()
        if self._stopped:
            return None
        if not self._waiting:
            raise queue.Empty
        work = ForkingPickler.loads(self._waiting.pop(0))
        self._encoder.begin()
        self.asked = time.perf_counter()
        return work

    def _look(self) -> bool | None:
        self._read()
        return bool(self._waiting) or self._stopped or None

    def _read(self) -> None:
        try:
            while (message := self._channel.receive()) is not None:
                if message == STOP:
                    self._stopped = True
                else:
                    self._waiting.append(message)
        except Closed:
            self._stopped = True

    def is_set(self) -> bool:
        """Answer as the done event: whether the work is over."""
        return self._stopped


class Outbox:
    """What torch's loop takes for its data queue."""

    def __init__(self, channel: Channel, encoder: Encoder, inbox: Inbox) -> None:
        self._sender = FlushingSender(channel)
        self._encoder = encoder
        self._inbox = inbox
        self._hurry = False
        self._cpu = time.process_time()

    def put(self, item: tuple[Any, Any]) -> None:
        """Send a batch; if the loop is gone there is nobody to tell, and the inbox says stop.

        The CPU time is all that this process took since the last one: the way here and back is
        part of what a batch costs, and waiting takes none.
        """
        number, data = item
        wall = time.perf_counter() - self._inbox.asked
        before, self._cpu = self._cpu, time.process_time()
        cpu = self._cpu - before
        try:
            body, descriptors = self._encoder.encode(number, data)
        except Exception:
            # torch's queue would print this in a thread and let the loop wait for ever.
            wrapped = wrap_exception("while a batch was sent from a DataLoader worker")
            body, descriptors = self._encoder.encode(number, wrapped)
        with contextlib.suppress(Closed):
            self._sender.send(pack(number, body, wall, cpu), descriptors)

    def cancel_join_thread(self) -> None:
        """Do not wait for what is still to be sent."""
        self._hurry = True

    def close(self) -> None:
        """Send the rest, unless told not to wait for it."""
        if not self._hurry:
            self._sender.finish()


def run_worker(
    end: socket.socket, encoder: Encoder, dataset: Any, arguments: dict[str, Any]
) -> None:
    """Work until told to stop: the target of a worker's process."""
    channel = Channel(end)
    inbox = Inbox(channel, encoder)
    outbox = Outbox(channel, encoder, inbox)
    try:
        run_worker_loop(
            dataset, arguments | {"index_queue": inbox, "data_queue": outbox, "done_event": inbox}
        )
    finally:
        outbox.close()
