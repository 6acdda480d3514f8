"""How messages of workers reach the loop: read by the loop itself, or pinned by a thread first."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from feedrate.loader.channel import Closed
from feedrate.loader.crew import Crew, Worker
from feedrate.loader.short_waits import ShortWaits
from feedrate.loader.transport import Delivery

_PIN_LOOK_SECONDS = 5.0


class Event(NamedTuple):
    """A worker's message, or its end: with ``error`` where that is how it showed."""

    worker: Worker
    delivery: Delivery | None = None
    error: BaseException | None = None


class Arrivals(Protocol):
    """Where the loop waits."""

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that reads the channels; ``None`` where the loop does."""

    def add(self, worker: Worker) -> None:
        """Take in a new worker's messages too."""

    def next(self, sources: Sequence[Worker], seconds: float) -> Event | None:
        """Return the next event; ``None`` where none came in the time.

        ``sources`` are the workers whose messages the loop can use now; an end is told of any.
        """

    def close(self) -> None:
        """Stop; nothing is asked for any more."""


def read(worker: Worker) -> Event | None:
    """Return what a worker's channel has, ``None`` for nothing."""
    try:
        delivery = worker.receive()
    except Closed:
        return Event(worker)
    except (OSError, EOFError) as error:
        return Event(worker, error=_without_frames(error))
    return None if delivery is None else Event(worker, delivery)


def _without_frames(error: BaseException) -> BaseException:
    """Return the error without its tracebacks.

    Their frames lead to the loop that waits for this very event, and so to the iterator: it would
    be garbage in a cycle, and its workers would live until a collection.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
    return error


class DirectArrivals:
    """The loop reads the channels itself, and only those it needs: no thread, no queue."""

    thread: threading.Thread | None = None

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._short = ShortWaits()

    def add(self, worker: Worker) -> None:
        """Do nothing: the loop names its sources each time."""

    def next(self, sources: Sequence[Worker], seconds: float) -> Event | None:
        """Return the next event; see `Arrivals`."""
        if (event := self._look(sources)) is not None:
            return event
        ended: list[Worker] = []
        event = self._short.wait(
            lambda: self._look(sources),
            lambda: ended.extend(self._crew.wait(list(sources), seconds)),
        )
        if event is not None:
            return event
        for worker in ended:
            if not worker.gone:
                return Event(worker)
        return None

    @staticmethod
    def _look(sources: Sequence[Worker]) -> Event | None:
        for worker in sources:
            if event := read(worker):
                return event
            worker.flush()
        return None

    def close(self) -> None:
        """Do nothing."""


class PinnedArrivals:
    """A thread reads all channels and pins every batch, so that the loop gets it ready to copy.

    Args:
        crew: where ends of workers are told.
        pin: returns a batch in pinned memory.
        prepare: called once in the thread, which has to choose the device that the loop uses.
    """

    def __init__(
        self, crew: Crew, pin: Callable[[Any], Any], prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._crew = crew
        self._pin = pin
        self._prepare = prepare
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers: dict[int, Worker] = {}
        self._wake_r, self._wake_w = os.pipe()
        self._closing = False
        self.thread = threading.Thread(target=self._run, daemon=True, name="feedrate_pin_memory")
        self.thread.start()

    def add(self, worker: Worker) -> None:
        """Take in a new worker's messages too."""
        with self._lock:
            self._workers[worker.channel.fileno()] = worker
        os.write(self._wake_w, b"+")

    def next(self, sources: Sequence[Worker], seconds: float) -> Event | None:
        """Return the next event; see `Arrivals`. It may be of any worker.

        Raises:
            RuntimeError: the thread has ended, as torch says it.
        """
        for worker in sources:
            worker.flush()
        with contextlib.suppress(queue.Empty):
            return self._events.get(timeout=min(seconds, 0.2))
        # The thread tells of an end once it has passed on all that came before it. Where something
        # else holds the channel open (a process that the worker forked), only the process tells.
        for worker in self._crew.wait([], 0):
            if not worker.gone and self._events.empty():
                return Event(worker)
        if not self.thread.is_alive():
            raise RuntimeError("Pin memory thread exited unexpectedly")
        return None

    def _run(self) -> None:
        self._prepare()
        poll = select.poll()
        poll.register(self._wake_r, select.POLLIN)
        known: dict[int, Worker] = {}
        while not self._closing:
            with self._lock:
                for descriptor, worker in self._workers.items():
                    if known.get(descriptor) is not worker:
                        known[descriptor] = worker
                        poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(_PIN_LOOK_SECONDS * 1000):
                if descriptor == self._wake_r:
                    os.read(self._wake_r, 64)
                elif not self._take(known[descriptor]):
                    poll.unregister(descriptor)
                    del known[descriptor]
                    with self._lock:
                        self._workers.pop(descriptor, None)

    def _take(self, worker: Worker) -> bool:
        """Pass on what a worker has sent; False at the end of its channel."""
        while not self._closing:
            event = read(worker)
            if event is None:
                return True
            if event.delivery is not None:
                data = self._pin(event.delivery.data)
                event = event._replace(delivery=event.delivery._replace(data=data))
            self._events.put(event)
            if event.delivery is None:
                return False
        return False

    def close(self) -> None:
        """Stop the thread."""
        if self._closing:
            return
        self._closing = True
        os.write(self._wake_w, b"-")
        self.thread.join()
        os.close(self._wake_r)
        os.close(self._wake_w)
