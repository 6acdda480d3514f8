"""How a batch becomes a message in the worker and a batch again in the loop."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, Protocol

from feedrate.loader.channel import Channel

_HEAD = struct.Struct("<qdd")
"""The batch's number (−1 for torch's own words), wall and CPU seconds that it took."""


class Delivery(NamedTuple):
    """One message of a worker: a batch, or torch's own word, with what it took to make."""

    number: Any
    data: Any
    fetch_seconds: float
    cpu_seconds: float


class Encoder(Protocol):
    """The worker's side."""

    def begin(self) -> None:
        """Take note that a batch is begun."""

    def encode(self, number: Any, data: Any) -> tuple[bytes, Sequence[int]]:
        """Return the message's body and the descriptors that go with it."""


class Decoder(Protocol):
    """The loop's side, one for each worker."""

    def decode(self, body: memoryview, channel: Channel) -> tuple[Any, Any]:
        """Return number and data; descriptors are taken from the channel."""

    def close(self) -> None:
        """Let go of what the worker shares; what batches still use stays until they are gone."""


class TorchEncoder:
    """torch's own way: a shared-memory file for each tensor, its descriptor asked for later."""

    def begin(self) -> None:
        """Need nothing beforehand."""

    def encode(self, number: Any, data: Any) -> tuple[bytes, Sequence[int]]:
        """Return the pickled batch."""
        return bytes(ForkingPickler.dumps((number, data))), ()


class TorchDecoder:
    """Unpickles; fetching tensors fails where the worker is gone."""

    def decode(self, body: memoryview, channel: Channel) -> tuple[Any, Any]:  # noqa: ARG002
        """Return number and data.

        Raises:
            OSError, EOFError: the worker ended before its tensors were fetched.
        """
        number, data = ForkingPickler.loads(body)
        return number, data

    def close(self) -> None:
        """Hold nothing."""


def pack(number: Any, body: bytes, fetch_seconds: float, cpu_seconds: float) -> bytes:
    """Return a whole message."""
    label = number if type(number) is int else -1
    return _HEAD.pack(label, fetch_seconds, cpu_seconds) + body


def label_of(message: bytes) -> int:
    """Return the number of the batch in a message, −1 where it holds none; nothing is decoded."""
    label: int = _HEAD.unpack_from(message)[0]
    return label


def unpack(message: bytes, decoder: Decoder, channel: Channel) -> Delivery:
    """Return what a message brings; errors of the decoder pass through."""
    _, fetch_seconds, cpu_seconds = _HEAD.unpack_from(message)
    number, data = decoder.decode(memoryview(message)[_HEAD.size :], channel)
    return Delivery(number, data, fetch_seconds, cpu_seconds)


def count_bytes(data: Any) -> int:
    """Return the bytes of all tensors and arrays in a nested batch."""
    if isinstance(data, Mapping):
        return sum(count_bytes(value) for value in data.values())
    if isinstance(data, list | tuple):
        return sum(count_bytes(value) for value in data)
    try:
        size = getattr(data, "nbytes", 0)
    except RuntimeError:  # torch raises it for sparse tensors
        return 0
    return size if isinstance(size, int) else 0


def make_transport(name: str) -> tuple[Encoder, Decoder]:
    """Return the two sides of "arena" or "torch", for one worker."""
    if name == "arena":
        from feedrate.loader.arena_transport import ArenaDecoder, ArenaEncoder

        return ArenaEncoder(), ArenaDecoder()
    return TorchEncoder(), TorchDecoder()
