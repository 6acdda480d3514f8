"""Batches through the arena: the pickle goes by message, the tensors' bytes lie in a slot.

What a batch is made of stays the user's own: the pickle is of the whole batch, and only dense CPU
tensors and the buffers of arrays are taken out of it. What cannot be carried (sparse, nested,
quantized, device tensors, subclasses) goes as torch sends it.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from feedrate.loader.allowance import allowance
from feedrate.loader.arena import News, Segment, Slot, Writer
from feedrate.loader.arena_pickle import EXACT, BatchPickler, Plan, current, is_carried
from feedrate.loader.channel import Channel
from feedrate.loader.numpy_views import tensor_at
from feedrate.loader.small_batches import MARK, SmallDecoder, SmallEncoder, most_bytes

if TYPE_CHECKING:
    from feedrate.loader.pinning import Pinning

_PREFIX = struct.Struct("<BIqIIQII")
"""A mark (0), words of news, slot's segment and index, bytes of the pickle in the message, and in
the slot (its offset and length, 0 for none), and how many buffers of arrays there are."""
_LARGE_PICKLE = 32 * 1024
"""A longer pickle goes into the slot too, so that every message fits into the socket's buffer."""
_TRY_AGAIN = 64
"""So many batches go the careful way after one that was small and could go no other."""


class ArenaEncoder:
    """The worker's side: puts batches into slots, and collates into them."""

    def __init__(self) -> None:
        self._writer: Writer | None = None
        self._slot: Slot | None = None
        self._expected = 0
        self._small = SmallEncoder()
        self._careful = 0  # how many batches more are not tried as small ones

    def begin(self) -> None:
        """A batch begins: have a slot ready to collate into, of the size of the last one."""
        if self._writer is None:
            self._writer = Writer()
            _collate_into(self)
        if self._slot is not None:  # the last fetch failed; something may still be in it
            self._writer.let_go(self._slot)
            self._slot = None
        if self._expected and self._careful:
            self._slot = self._writer.open(self._expected)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor | None:
        """Return an empty tensor in the slot, ``None`` where there is no room."""
        slot = self._slot
        if slot is None:
            return None
        count = 1
        for extent in shape:
            count *= extent
        if count == 0 or (offset := slot.room(count * dtype.itemsize)) is None:
            return None
        return tensor_at(slot.buffer, offset, dtype, tuple(shape))

    def encode(self, number: Any, data: Any) -> tuple[bytes, Sequence[int]]:
        """Return the message's body and the descriptors of new segments."""
        writer = self._writer
        if writer is None:
            self.begin()
            writer = self._writer
            assert writer is not None
        if self._careful:
            self._careful -= 1
        elif type(number) is int and writer.skip():
            message = self._small.encode(number, data)
            if message is not None:
                return message, ()
            self._careful = _TRY_AGAIN
        body, plan = self._pickle((number, data))
        large = len(body) if len(body) > _LARGE_PICKLE else 0
        at = plan.place(large) if large else 0
        slot = None
        if plan.size > most_bytes(len(plan.found)):
            self._careful = _TRY_AGAIN
        if plan.size:
            slot = self._fill(writer, plan)
            if large:
                ctypes.memmove(slot.address + at, body, large)
            writer.take(slot)
            self._expected = plan.size
            writer.let_go(slot)
        self._slot = None
        return self._message(writer.news(), slot, plan, b"" if large else body, (at, large))

    def _pickle(self, value: Any) -> tuple[bytes, Plan]:
        file = io.BytesIO()
        plan = Plan(self._slot, {})
        BatchPickler(file, plan).dump(value)
        if len(plan.found) > 1 and (shared := plan.overlaps()):
            file = io.BytesIO()
            plan = Plan(self._slot, shared)
            BatchPickler(file, plan).dump(value)
        return file.getvalue(), plan

    def _fill(self, writer: Writer, plan: Plan) -> Slot:
        """Copy what is not there yet; move to a larger slot if it does not fit."""
        slot = plan.slot
        if slot is None or plan.size > slot.size:
            old, slot = slot, writer.open(plan.size)
            if old is not None:
                writer.let_go(old)
        for found in plan.found:
            if found.address != slot.address + found.offset:
                ctypes.memmove(slot.address + found.offset, found.address, found.size)
        for offset, raw in plan.buffers:
            memoryview(slot.buffer).cast("B")[offset : offset + raw.nbytes] = raw
        return slot

    @staticmethod
    def _message(
        news: News, slot: Slot | None, plan: Plan, body: bytes, large: tuple[int, int]
    ) -> tuple[bytes, Sequence[int]]:
        words = pickle.dumps((news.made, news.gone)) if news.made or news.gone else b""
        prefix = _PREFIX.pack(
            0,
            len(words),
            slot.segment.number if slot is not None else -1,
            slot.index if slot is not None else 0,
            len(body),
            *large,
            len(plan.buffers),
        )
        table = b"".join(struct.pack("<QQ", at, raw.nbytes) for at, raw in plan.buffers)
        return prefix + words + table + body, news.descriptors


class ArenaDecoder:
    """The loop's side of one worker. With ``pinning``, set before the first message, slots are
    pinned where they are."""

    def __init__(self) -> None:
        self.pinning: Pinning | None = None
        self._segments: dict[int, Segment] = {}
        self._small = SmallDecoder()

    def decode(self, body: memoryview, channel: Channel) -> tuple[Any, Any]:
        """Return number and data; their tensors lie in the slot, which is free when they are gone.

        Raises:
            OSError: a segment cannot be mapped.
        """
        if body[0] == MARK:
            return self._small.decode(body)
        _, words, number, index, length, at, large, buffers = _PREFIX.unpack_from(body)
        offset = _PREFIX.size
        if words:
            self._take_news(bytes(body[offset : offset + words]), channel)
            offset += words
        table = [struct.unpack_from("<QQ", body, offset + 16 * i) for i in range(buffers)]
        offset += 16 * buffers
        if number < 0:
            return pickle.loads(body[offset : offset + length])  # type: ignore[no-any-return]
        memory = (self.pinning or allowance).take(self._segments[number], index)
        before = current.buffer
        current.buffer = memory
        current.shared = {}
        try:
            if not (large or buffers):
                return pickle.loads(body[offset : offset + length])  # type: ignore[no-any-return]
            view = memoryview(memory).cast("B")
            pickled = view[at : at + large] if large else body[offset : offset + length]
            arrays = [view[start : start + size] for start, size in table]
            return pickle.loads(pickled, buffers=arrays)  # type: ignore[no-any-return]
        finally:
            current.buffer = before
            current.shared = {}

    def _take_news(self, words: bytes, channel: Channel) -> None:
        made, gone = pickle.loads(words)
        for number, slot_size, slots in made:
            descriptor = channel.take_descriptor()
            try:
                make = Segment if self.pinning is None else self.pinning.segment
                self._segments[number] = make(number, descriptor, slot_size, slots)
            finally:
                os.close(descriptor)
        for number in gone:
            self._segments.pop(number, None)

    def close(self) -> None:
        """Let go of the segments; what batches use of them stays mapped until they are gone."""
        self._segments.clear()


def _collate_into(encoder: ArenaEncoder) -> None:
    """Make `default_collate` stack tensors in this worker right where they are sent from."""
    from torch.utils.data._utils import collate

    original = collate.default_collate_fn_map.get(torch.Tensor)
    if original is None:
        return

    def stack(batch: Any, *, collate_fn_map: Any = None) -> Any:
        first = batch[0]
        if type(first) is EXACT and is_carried(first) and not first.requires_grad:
            out = encoder.empty((len(batch), *first.shape), first.dtype)
            return torch.stack(batch, 0) if out is None else torch.stack(batch, 0, out=out)
        return original(batch, collate_fn_map=collate_fn_map)

    collate.default_collate_fn_map[torch.Tensor] = stack
