"""Batches that arrive pinned: in their slots, and read by the loop itself; else by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from feedrate.loader import torch_private
from feedrate.loader.arrivals import Arrivals, DirectArrivals, Event, PinnedArrivals
from feedrate.loader.channel import Channel
from feedrate.loader.crew import Crew, Worker
from feedrate.loader.pinning import Pinning, find_pinning
from feedrate.loader.transport import Decoder

if TYPE_CHECKING:
    from feedrate.loader.arena_transport import ArenaDecoder


class _PinningDecoder:
    """Has every batch pinned that another decoder returns."""

    def __init__(self, decoder: Decoder, pin: Callable[[Any], Any]) -> None:
        self._decoder = decoder
        self._pin = pin

    def decode(self, body: memoryview, channel: Channel) -> tuple[Any, Any]:
        """Return number and data; see `Decoder`."""
        number, data = self._decoder.decode(body, channel)
        return number, self._pin(data)

    def close(self) -> None:
        """Close the other."""
        self._decoder.close()


class InPlaceArrivals:
    """The loop reads the channels itself, and what it reads lies in pinned slots.

    When the device refuses to pin more of them, a thread takes over, as torch has it.

    Args:
        crew: where ends of workers are told.
        pinning: what pins slots.
        pin: returns a batch in pinned memory: the same, as far as it lies in a pinned slot.
        prepare: as for `PinnedArrivals`.
    """

    def __init__(
        self,
        crew: Crew,
        pinning: Pinning,
        pin: Callable[[Any], Any],
        prepare: Callable[[], None],
    ) -> None:
        self._crew = crew
        self._pinning = pinning
        self._pin = pin
        self._prepare = prepare
        self._loop = pinning.begin()
        self._now: DirectArrivals | PinnedArrivals = DirectArrivals(crew)

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that has taken over, if one has."""
        return self._now.thread

    def add(self, worker: Worker) -> None:
        """Take in a new worker's messages too, and have its batches pinned."""
        cast("ArenaDecoder", worker.decoder).pinning = self._pinning
        worker.decoder = _PinningDecoder(worker.decoder, self._pin)
        self._now.add(worker)

    def next(self, sources: Sequence[Worker], seconds: float) -> Event | None:
        """Return the next event; see `Arrivals`."""
        if self.thread is None and not self._pinning.works:
            # The decoders pin, now in the thread, which has nothing left to pin itself.
            self._now = PinnedArrivals(self._crew, lambda data: data, self._prepare)
            for worker in self._crew.workers:
                if not worker.gone:
                    self._now.add(worker)
        return self._now.next(sources, seconds)

    def close(self) -> None:
        """Stop; slots that a device still reads are free when it is done."""
        self._now.close()
        self._pinning.end(self._loop)


def pinned_arrivals(crew: Crew, device: str | None, transport: str) -> Arrivals:
    """Return what pins every batch: in place, or in a thread where that cannot be.

    Args:
        device: what the batches are pinned for, as torch's loader names it.
        transport: how they come; only in an arena can they be pinned in place.
    """

    def pin(data: Any) -> Any:
        try:
            return torch_private.pin(data, device)
        except Exception:
            return torch_private.wrap_exception("in pin memory thread for device")

    prepare = torch_private.device_chooser(device)
    if transport == "arena":
        pinning = find_pinning(device)
        if pinning is not None:
            return InPlaceArrivals(crew, pinning, pin, prepare)
    return PinnedArrivals(crew, pin, prepare)
