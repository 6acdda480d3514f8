"""Taking tensors out of a batch's pickle, and where in the slot each of them goes.

Only dense CPU tensors and the buffers of arrays are taken out; all else is pickled as torch does
it. The functions at the top rebuild tensors on the other side, upon the slot's memory.
"""

from __future__ import annotations

import io
import pickle
import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from feedrate.loader.arena import Slot, aligned
from feedrate.loader.numpy_views import tensor_at

_MARK_BUFFER = 512
"""Arrays below this size stay in the pickle."""

EXACT = torch.Tensor


class Current(threading.local):
    """The buffer that this thread rebuilds tensors on, and storages that several of them share."""

    buffer: Any = None
    shared: dict[int, torch.Tensor]


current = Current()


def _vector(offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(current.buffer, dtype=dtype, count=count, offset=offset)


def _dense(offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return tensor_at(current.buffer, offset, dtype, shape)


def _strided(
    offset: int, count: int, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    flat = torch.frombuffer(current.buffer, dtype=dtype, count=count, offset=offset)
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
    whole = current.shared.get(offset)
    if whole is None:
        whole = current.shared[offset] = _vector(offset, size, torch.uint8)
    return torch.empty(0, dtype=dtype).set_(
        whole.untyped_storage(), start // dtype.itemsize, shape, stride
    )


def _with_grad(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.requires_grad_()


def is_carried(tensor: torch.Tensor) -> bool:
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


class BatchPickler(ForkingPickler):
    """Takes dense CPU tensors out of a pickle; a second pass knows which of them overlap."""

    def __init__(self, file: io.BytesIO, plan: Plan) -> None:
        super().__init__(file, 5, True, plan.add_buffer)
        self._plan = plan

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild a tensor; leave all else to torch and pickle."""
        if type(value) is not EXACT:
            return NotImplemented
        return self._plan.add_tensor(value)


class Plan:
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
        if not is_carried(tensor):
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
        return _dense, (found.offset, dtype, shape)

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
