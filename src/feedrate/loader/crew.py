"""The crew: the worker processes of one iterator, each with its channel and its counters."""

from __future__ import annotations

import contextlib
import select
import selectors
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import Any

from feedrate.loader.channel import Channel, Closed, channel_pair
from feedrate.loader.leases import leases
from feedrate.loader.transport import Decoder, Delivery, Encoder, label_of, unpack
from feedrate.loader.worker import STOP, run_worker

JOIN_SECONDS = 5.0
"""How long a worker may take to end, as torch has it (MP_STATUS_CHECK_INTERVAL)."""
_EXIT_SECONDS = 1.0

_UNPICKLABLE = (
    "Got pickle error when attempting to start a worker Process. This might be because the worker "
    "Process arguments are not picklable. Python 3.14+ changed the multiprocessing start method in "
    "non-Mac POSIX platforms to 'forkserver', which requires the worker Process arguments to be "
    "picklable. You can also try multiprocessing.set_start_method('fork')."
)
"""torch's own words, as its iterator warns."""


@dataclass(slots=True)
class Worker:
    """One worker process, seen from the loop.

    ``made`` holds the batches that it had made, and whose tensors could not be fetched in the end.
    """

    number: int
    process: Any
    channel: Channel
    decoder: Decoder
    started: float
    retiring: bool = False
    gone: bool = False
    exhausted: bool = False
    batches: int = 0
    fetch_seconds: float = 0.0
    cpu_seconds: float = 0.0
    made: set[int] = field(default_factory=set)

    @property
    def active(self) -> bool:
        """Whether it may be given more work in this epoch."""
        return not (self.retiring or self.gone or self.exhausted)

    def send(self, body: bytes) -> None:
        """Send work; a worker that is gone is noticed when its answer is waited for."""
        with contextlib.suppress(Closed):
            self.channel.send(body)

    def flush(self) -> None:
        """Send what waits for room; only the loop's own thread may."""
        if self.channel.backlog:
            with contextlib.suppress(Closed):
                self.channel.flush()

    def receive(self) -> Delivery | None:
        """Return its next message, ``None`` if there is none.

        Raises:
            Closed: it is gone, and all that it sent whole was returned.
            OSError, EOFError: it ended before its tensors were fetched.
        """
        message = self.channel.receive()
        if message is None:
            return None
        label = label_of(message)
        if label >= 0:
            self.made.add(label)  # also if its tensors are lost with the worker
        delivery = unpack(message, self.decoder, self.channel)
        if label >= 0:
            self.made.discard(label)
            self.batches += 1
            self.fetch_seconds += delivery.fetch_seconds
            self.cpu_seconds += delivery.cpu_seconds
        return delivery

    def exit_code(self, patience: float = _EXIT_SECONDS) -> int | None:
        """Return its exit code, after waiting a moment for it; ``None`` while it lives."""
        self.process.join(patience)
        code: int | None = self.process.exitcode
        return code

    def dismiss(self) -> None:
        """Tell it to end once it has nothing more to do; it is not waited for."""
        self.send(STOP)

    def close(self) -> None:
        """Close the channel; batches that came over it stay."""
        self.channel.close()
        self.decoder.close()


class Crew:
    """Starts workers and waits for any of them to send or to end.

    Args:
        context: a multiprocessing context, or torch.multiprocessing itself.
        dataset: given to each worker.
        arguments: what torch's worker loop is given, without number and count.
        transport: makes the two sides of a worker's messages.
    """

    def __init__(
        self,
        context: Any,
        dataset: Any,
        arguments: dict[str, Any],
        transport: Callable[[], tuple[Encoder, Decoder]],
    ) -> None:
        self._context = context
        self._transport = transport
        self._dataset = dataset
        self._arguments = arguments
        self._ends = selectors.DefaultSelector()
        self.workers: list[Worker] = []
        self._leaving: list[Worker] = []

    def start(self, number: int, count: int) -> Worker:
        """Start a worker, or one in the place of a dead one with the same number.

        Errors of starting a process pass through, with torch's warning if it is one of pickling.
        """
        ours, theirs = channel_pair()
        encoder, decoder = self._transport()
        process = self._context.Process(
            target=run_worker,
            args=(
                theirs.detach(),
                encoder,
                self._dataset,
                self._arguments | {"worker_id": number, "num_workers": count},
            ),
        )
        process.daemon = True
        try:
            process.start()
        except BaseException as error:
            ours.close()
            if isinstance(error, TypeError | AttributeError | PicklingError):
                warnings.warn(_UNPICKLABLE, stacklevel=2)
            raise
        finally:
            theirs.close()
        worker = Worker(number, process, ours, decoder, time.monotonic())
        self._ends.register(process.sentinel, selectors.EVENT_READ, worker)
        if number < len(self.workers):
            self.workers[number] = worker
        else:
            self.workers.append(worker)
        return worker

    def forget(self, worker: Worker) -> None:
        """Stop watching a worker; it has ended, or is left to end."""
        if not worker.gone:
            worker.gone = True
            with contextlib.suppress(KeyError, ValueError):
                self._ends.unregister(worker.process.sentinel)

    def retire(self, worker: Worker) -> None:
        """Let a worker go that has delivered everything; it ends in its own time."""
        worker.dismiss()
        self.forget(worker)
        self._leaving.append(worker)
        self.reap()

    def reap(self) -> None:
        """Let go of the retired workers that have ended meanwhile."""
        for worker in list(self._leaving):
            if not worker.process.is_alive():
                worker.process.join()
                worker.close()
                self._leaving.remove(worker)

    def wait(self, channels: list[Worker], seconds: float) -> list[Worker]:
        """Wait until one of ``channels`` has sent something or any worker has ended.

        Returns:
            The workers that have ended, if any. Empty also where something came, or nothing did
            in the time.
        """
        poll = select.poll()
        for worker in channels:
            events = select.POLLIN | (select.POLLOUT if worker.channel.backlog else 0)
            poll.register(worker.channel.fileno(), events)
        poll.register(self._ends.fileno(), select.POLLIN)
        if poll.poll(seconds * 1000):
            return [key.data for key, _ in self._ends.select(0)]
        # A process that a worker has forked holds all that would tell of its end.
        return [w for w in self.workers if not (w.gone or w.process.is_alive())]

    def stop(self) -> None:
        """End all workers: ask, wait a while, then kill. A second time does nothing."""
        everyone = [*self.workers, *self._leaving]
        for worker in self.workers:
            if not worker.gone:
                worker.dismiss()
        for worker in everyone:
            if worker.channel.backlog:
                worker.channel.close()  # the stop is behind work: the closed end says it too
        deadline = time.monotonic() + JOIN_SECONDS
        try:
            for worker in everyone:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for worker in everyone:
                if worker.process.is_alive():
                    worker.process.terminate()
                    worker.process.join(JOIN_SECONDS)
                if worker.process.is_alive():
                    worker.process.kill()
                    worker.process.join()
                self.forget(worker)
                worker.close()
            self._leaving.clear()
            self._ends.close()
            leases.settle()
