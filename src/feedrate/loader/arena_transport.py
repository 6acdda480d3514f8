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
import threading
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from feedrate.loader.allowance import allowance
from feedrate.loader.arena import News, Segment, Slot, Writer, aligned
from feedrate.loader.channel import Channel

_PREFIX = struct.Struct("<IqIIQII")
"""Words of news, slot's segment and index, bytes of the pickle in the message, and in the slot
(its offset and length, 0 for none), and how many buffers of arrays there are."""
_LARGE_PICKLE = 32 * 1024
"""A longer pickle goes into the slot too, so that every message fits into the socket's buffer."""
_MARK_BUFFER = 512
"""Arrays below this size stay in the pickle."""

_EXACT = torch.Tensor


class _Current(threading.local):
    """The buffer that this thread rebuilds tensors on, and storages that several of them share."""

    buffer: Any = None
    shared: dict[int, torch.Tensor]


_current = _Current()


def _vector(offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(_current.buffer, dtype=dtype, count=count, offset=offset)


def _dense(offset: int, count: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    flat = torch.frombuffer(_current.buffer, dtype=dtype, count=count, offset=offset)
    return flat.view(shape)


def _strided(
    offset: int, count: int, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    flat = torch.frombuffer(_current.buffer, dtype=dtype, count=count, offset=offset)
    return flat.as_strided(shape, stride)


def _empty(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def _part(
    offset: int,
    size: int,
    start: int,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
) -> torch.Tensor:
    """Return a tensor that shares its storage with others of the batch."""
    whole = _current.shared.get(offset)
    if whole is None:
        whole = _current.shared[offset] = _vector(offset, size, torch.uint8)
    return torch.empty(0, dtype=dtype).set_(
        whole.untyped_storage(), start // dtype.itemsize, shape, stride
    )


def _with_grad(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.requires_grad_()


def _is_carried(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is its bytes, shape and strides, and nothing else."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_nested)
        and (tensor.is_leaf or not tensor.requires_grad)
    )


class _Found:
    """One tensor that goes into the slot: where its bytes are, and where they go.

    ``shown`` is the range of addresses that the user's tensor shows, also where it has holes and
    its elements were gathered into a tensor of their own; ``storage`` is the user's tensor's.
    """

    __slots__ = ("address", "itemsize", "offset", "shown", "size", "storage", "tensor")

    def __init__(self, tensor: torch.Tensor, size: int, shown_of: torch.Tensor, span: int) -> None:
        self.tensor = tensor  # kept, so that its memory stays
        self.address = tensor.data_ptr()
        self.size = size
        self.itemsize = tensor.dtype.itemsize
        start = shown_of.data_ptr()
        self.shown = (start, start + span * self.itemsize)
        self.storage = shown_of.untyped_storage().data_ptr()
        self.offset = 0


def _span(tensor: torch.Tensor) -> int:
    """Return how many elements lie between a tensor's first and last, both included."""
    if tensor.is_contiguous():
        return tensor.numel()
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


class _Pickler(ForkingPickler):
    """Takes dense CPU tensors out of a pickle; a second pass knows which of them overlap."""

    def __init__(self, file: io.BytesIO, plan: _Plan) -> None:
        super().__init__(file, 5, True, plan.add_buffer)
        self._plan = plan

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild a tensor; leave all else to torch and pickle."""
        if type(value) is not _EXACT:
            return NotImplemented
        return self._plan.add_tensor(value)


class _Plan:
    """Where in the slot everything goes."""

    def __init__(self, slot: Slot | None, shared: dict[int, list[tuple[int, int]]]) -> None:
        self.slot = slot
        self.size = slot.used if slot is not None else 0
        self.found: list[_Found] = []
        self.buffers: list[tuple[int, memoryview]] = []
        self.shared = shared
        self._placed: dict[int, int] = {}

    def place(self, size: int) -> int:
        """Return the offset of the next ``size`` bytes."""
        offset = self.size
        self.size = aligned(offset + size)
        return offset

    def add_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Take an array's buffer out of the pickle; true leaves it in."""
        try:
            raw = buffer.raw()
        except BufferError:
            return True
        if raw.nbytes < _MARK_BUFFER:
            return True
        self.buffers.append((self.place(raw.nbytes), raw))
        return False

    def add_tensor(self, tensor: torch.Tensor) -> Any:
        """Return how to rebuild a tensor, ``NotImplemented`` for one that torch is to send."""
        if not _is_carried(tensor):
            return NotImplemented
        if tensor.requires_grad:
            return _with_grad, (tensor.detach(),)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if tensor.numel() == 0:
            return _empty, (tensor.dtype, tuple(tensor.shape))
        if self.shared:
            for low, high in self.shared.get(tensor.untyped_storage().data_ptr(), ()):
                if low <= tensor.data_ptr() < high:
                    return self._add_part(tensor, low, high)
        return self._add_own(tensor)

    def _add_own(self, tensor: torch.Tensor) -> Any:
        """Place a tensor's elements, and only these, with its strides where they leave no holes."""
        count, dtype, shape = tensor.numel(), tensor.dtype, tuple(tensor.shape)
        shown, span = tensor, _span(tensor)
        if span > count:
            tensor = tensor.contiguous()
        dense = tensor.is_contiguous()
        placed = min(span, count)
        found = _Found(tensor, placed * dtype.itemsize, shown, span)
        found.offset = self._offset_of(found)
        self.found.append(found)
        if not dense:
            return _strided, (found.offset, placed, dtype, shape, tensor.stride())
        if len(shape) == 1:
            return _vector, (found.offset, count, dtype)
        return _dense, (found.offset, count, dtype, shape)

    def _offset_of(self, found: _Found) -> int:
        """Return where its bytes go, or are, if it was collated into the slot."""
        slot = self.slot
        if slot is not None:
            offset = found.address - slot.address
            if 0 <= offset <= slot.size - found.size:
                return offset
        return self.place(found.size)

    def _add_part(self, tensor: torch.Tensor, low: int, high: int) -> Any:
        """Place what several tensors show once, and each of them upon it."""
        offset = self._placed.get(low)
        if offset is None:
            offset = self._placed[low] = self.place(high - low)
            whole = _Found(tensor, high - low, tensor, 1)
            whole.address, whole.offset = low, offset
            self.found.append(whole)
        start = tensor.data_ptr() - low
        shape, stride = tuple(tensor.shape), tensor.stride()
        return _part, (offset, high - low, start, tensor.dtype, shape, stride)

    def overlaps(self) -> dict[int, list[tuple[int, int]]]:
        """Return the storages of which several tensors show the same bytes, and which bytes."""
        by_storage: dict[int, list[_Found]] = {}
        for found in self.found:
            by_storage.setdefault(found.storage, []).append(found)
        shared: dict[int, list[tuple[int, int]]] = {}
        for storage, members in by_storage.items():
            if len(members) < 2:
                continue
            for low, high, count in _clusters(sorted(member.shown for member in members)):
                if count > 1:
                    step = max(member.itemsize for member in members)
                    start = low - (low - storage) % step
                    shared.setdefault(storage, []).append((start, high))
        return shared


def _clusters(ranges: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return what overlapping ranges cover together, each with how many they are."""
    found: list[tuple[int, int, int]] = []
    for low, high in ranges:
        if found and low < found[-1][1]:
            before = found.pop()
            found.append((before[0], max(before[1], high), before[2] + 1))
        else:
            found.append((low, high, 1))
    return found


class ArenaEncoder:
    """The worker's side: puts batches into slots, and collates into them."""

    def __init__(self) -> None:
        self._writer: Writer | None = None
        self._slot: Slot | None = None
        self._expected = 0

    def begin(self) -> None:
        """A batch begins: have a slot ready to collate into, of the size of the last one."""
        if self._writer is None:
            self._writer = Writer()
            _collate_into(self)
        if self._slot is not None:  # the last fetch failed; something may still be in it
            self._writer.let_go(self._slot)
            self._slot = None
        if self._expected:
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
        return torch.frombuffer(slot.buffer, dtype=dtype, count=count, offset=offset).view(
            tuple(shape)
        )

    def encode(self, number: Any, data: Any) -> tuple[bytes, Sequence[int]]:
        """Return the message's body and the descriptors of new segments."""
        writer = self._writer
        if writer is None:
            self.begin()
            writer = self._writer
            assert writer is not None
        body, plan = self._pickle((number, data))
        large = len(body) if len(body) > _LARGE_PICKLE else 0
        at = plan.place(large) if large else 0
        slot = None
        if plan.size:
            slot = self._fill(writer, plan)
            if large:
                ctypes.memmove(slot.address + at, body, large)
            writer.take(slot)
            self._expected = plan.size
            writer.let_go(slot)
        self._slot = None
        return self._message(writer.news(), slot, plan, b"" if large else body, (at, large))

    def _pickle(self, value: Any) -> tuple[bytes, _Plan]:
        file = io.BytesIO()
        plan = _Plan(self._slot, {})
        _Pickler(file, plan).dump(value)
        if len(plan.found) > 1 and (shared := plan.overlaps()):
            file = io.BytesIO()
            plan = _Plan(self._slot, shared)
            _Pickler(file, plan).dump(value)
        return file.getvalue(), plan

    def _fill(self, writer: Writer, plan: _Plan) -> Slot:
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
        news: News, slot: Slot | None, plan: _Plan, body: bytes, large: tuple[int, int]
    ) -> tuple[bytes, Sequence[int]]:
        words = pickle.dumps((news.made, news.gone)) if news.made or news.gone else b""
        prefix = _PREFIX.pack(
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
    """The loop's side of one worker."""

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}

    def decode(self, body: memoryview, channel: Channel) -> tuple[Any, Any]:
        """Return number and data; their tensors lie in the slot, which is free when they are gone.

        Raises:
            OSError: a segment cannot be mapped.
        """
        words, number, index, length, at, large, buffers = _PREFIX.unpack_from(body)
        offset = _PREFIX.size
        if words:
            self._take_news(bytes(body[offset : offset + words]), channel)
            offset += words
        table = [struct.unpack_from("<QQ", body, offset + 16 * i) for i in range(buffers)]
        offset += 16 * buffers
        if number < 0:
            return pickle.loads(body[offset : offset + length])  # type: ignore[no-any-return]
        memory = allowance.take(self._segments[number], index)
        before = _current.buffer
        _current.buffer = memory
        _current.shared = {}
        try:
            if not (large or buffers):
                return pickle.loads(body[offset : offset + length])  # type: ignore[no-any-return]
            view = memoryview(memory).cast("B")
            pickled = view[at : at + large] if large else body[offset : offset + length]
            arrays = [view[start : start + size] for start, size in table]
            return pickle.loads(pickled, buffers=arrays)  # type: ignore[no-any-return]
        finally:
            _current.buffer = before
            _current.shared = {}

    def _take_news(self, words: bytes, channel: Channel) -> None:
        made, gone = pickle.loads(words)
        for number, slot_size, slots in made:
            descriptor = channel.take_descriptor()
            try:
                self._segments[number] = Segment(number, descriptor, slot_size, slots)
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
        if type(first) is _EXACT and _is_carried(first) and not first.requires_grad:
            out = encoder.empty((len(batch), *first.shape), first.dtype)
            return torch.stack(batch, 0) if out is None else torch.stack(batch, 0, out=out)
        return original(batch, collate_fn_map=collate_fn_map)

    collate.default_collate_fn_map[torch.Tensor] = stack
