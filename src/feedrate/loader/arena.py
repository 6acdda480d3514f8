"""The arena: shared memory that a worker fills and the loop reads, mapped once and used again.

A worker makes segments (memfd: no name, no limit but memory, gone with its last user) and divides
each into slots of one size. A batch takes one slot. One byte for each slot says whether it is free:
the worker sets it before it announces the batch, the loop clears it when the last tensor made from
the batch is gone. Neither waits for the other: a worker that finds no free slot makes a segment.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ALIGNMENT = 64
_HEADER = mmap.PAGESIZE
_SMALL_SEGMENT = 1 << 20
_MOST_SLOTS = _HEADER  # a byte each
_LARGEST_FIT = 8
"""A slot is not taken for a batch that is smaller than one in so many of its bytes."""
_UNUSED_BATCHES = 256
"""A segment that so many batches did without is given back."""
_LOOK_BATCHES = 64


def aligned(size: int) -> int:
    """Return the size rounded up so that whatever comes next is aligned for any dtype."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def size_class(size: int) -> int:
    """Return the slot size for a batch: eight classes for each power of two, pages from 4 KiB on.

    So that batches of nearly one size share slots, at most an eighth is unused, and there are few
    sizes in all.
    """
    step = max(1 << max(size - 1, 1).bit_length() >> 4, mmap.PAGESIZE)
    return -(-size // step) * step


@functools.cache
def _slot_type(size: int) -> type:
    """Return a buffer type of a size: an instance is one use of a slot, and its end is its free."""

    def end(self: Any) -> None:
        release = getattr(self, "release", None)
        if release is not None:
            release()

    identity = {"__eq__": object.__eq__, "__hash__": object.__hash__}  # no two uses are the same
    return type("Slot", (ctypes.c_char * size,), {"__del__": end, **identity})


class Segment:
    """One mapping, in the process that made it or in one that was handed its descriptor."""

    def __init__(self, number: int, descriptor: int, slot_size: int, slots: int) -> None:
        self.number = number
        self.slot_size = slot_size
        self.slots = slots
        self.memory = self._map(descriptor, segment_size(slot_size, slots))

    def _map(self, descriptor: int, size: int) -> mmap.mmap:
        return mmap.mmap(descriptor, size)

    def offset(self, slot: int) -> int:
        """Return where a slot begins."""
        return _HEADER + slot * self.slot_size

    def free_slots(self) -> Iterator[int]:
        """Yield the slots that the loop has let go of."""
        slot = self.memory.find(b"\0", 0, self.slots)
        while slot >= 0:
            yield slot
            slot = self.memory.find(b"\0", slot + 1, self.slots)

    def is_empty(self) -> bool:
        """Tell whether all slots are free."""
        return self.memory.find(b"\1", 0, self.slots) < 0

    def take(self, slot: int) -> None:
        """Mark a slot as used."""
        self.memory[slot] = 1

    def free(self, slot: int) -> None:
        """Mark a slot as free."""
        self.memory[slot] = 0

    def buffer(self, slot: int) -> Any:
        """Return the slot's memory. Its attribute ``release`` is called when it ends."""
        return _slot_type(self.slot_size).from_buffer(self.memory, self.offset(slot))  # type: ignore[attr-defined]

    def copy(self, slot: int) -> Any:
        """Return a private copy of a slot's memory."""
        return _slot_type(self.slot_size).from_buffer_copy(self.memory, self.offset(slot))  # type: ignore[attr-defined]


def anonymous_memory(size: int) -> int:
    """Return the descriptor of shared memory that has no name, and ends with its last user."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("feedrate", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return descriptor
    from multiprocessing.shared_memory import SharedMemory

    named = SharedMemory(create=True, size=size)  # macOS has no memory without a name
    try:
        return os.dup(named._fd)  # type: ignore[attr-defined]
    finally:
        named.unlink()
        named.close()


def segment_size(slot_size: int, slots: int) -> int:
    """Return the bytes of a whole segment."""
    return _HEADER + slot_size * slots


@dataclass(slots=True)
class Slot:
    """One slot as the worker sees it; ``used`` is how much of it is taken."""

    segment: Segment
    index: int
    buffer: Any
    address: int
    used: int = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.segment.slot_size

    def room(self, size: int) -> int | None:
        """Take ``size`` bytes; return their offset, ``None`` where there is no room."""
        offset = self.used
        if offset + size > self.size:
            return None
        self.used = aligned(offset + size)
        return offset


@dataclass(slots=True)
class News:
    """What the loop has to be told with the next message: segments made, and given back."""

    made: list[tuple[int, int, int]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


class Writer:
    """The worker's side: hands out slots, and makes and gives back segments."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._held: dict[tuple[int, int], weakref.ref[Any]] = {}
        self._last_use: dict[int, int] = {}
        self._numbers = 0
        self._batches = 0
        self._news = News()
        self._next = 0

    def open(self, size: int) -> Slot:
        """Return a free slot of at least ``size`` bytes."""
        self._batches += 1
        for _ in range(len(self._segments)):
            segment = self._segments[self._next % len(self._segments)]
            if size <= segment.slot_size <= max(_LARGEST_FIT * size, 1 << 16):
                for index in segment.free_slots():
                    if not self._is_held(segment, index):
                        return self._slot(segment, index)
            self._next += 1
        return self._slot(self._make(size), 0)

    def skip(self) -> bool:
        """Count a batch that needs no slot; false where it should, to tell what is given back."""
        if not self._segments:
            return True
        if (self._batches + 1) % _LOOK_BATCHES == 0:
            return False
        self._batches += 1
        return True

    def take(self, slot: Slot) -> None:
        """Mark a slot as used, before the loop is told of it."""
        slot.segment.take(slot.index)

    def let_go(self, slot: Slot) -> None:
        """Keep nothing of a slot but the knowledge whether something in this process still does."""
        key = (slot.segment.number, slot.index)
        self._held[key] = weakref.ref(slot.buffer)

    def news(self) -> News:
        """Return what the loop has to be told, once."""
        self._give_back()
        news, self._news = self._news, News()
        return news

    def _is_held(self, segment: Segment, index: int) -> bool:
        held = self._held.get((segment.number, index))
        return held is not None and held() is not None

    def _slot(self, segment: Segment, index: int) -> Slot:
        self._last_use[segment.number] = self._batches
        buffer = segment.buffer(index)
        return Slot(segment, index, buffer, ctypes.addressof(buffer))

    def _make(self, size: int) -> Segment:
        slot_size = size_class(size)
        # As many again as there are: a loop that keeps its batches makes few segments, each of
        # which costs a descriptor. Memory is taken when a slot is first written.
        so_far = sum(s.slots for s in self._segments if s.slot_size == slot_size)
        slots = min(max(1, _SMALL_SEGMENT // slot_size, so_far), _MOST_SLOTS)
        descriptor = anonymous_memory(segment_size(slot_size, slots))
        self._numbers += 1
        segment = Segment(self._numbers, descriptor, slot_size, slots)
        self._segments.append(segment)
        self._news.made.append((segment.number, slot_size, slots))
        self._news.descriptors.append(descriptor)
        return segment

    def _give_back(self) -> None:
        """Let go of segments that are not used any more, for batches have become smaller."""
        if self._batches % _LOOK_BATCHES:
            return
        for segment in list(self._segments):
            unused = self._batches - self._last_use[segment.number] > _UNUSED_BATCHES
            slots = range(segment.slots)
            if unused and segment.is_empty() and not any(self._is_held(segment, i) for i in slots):
                self._segments.remove(segment)
                self._news.gone.append(segment.number)
                for index in slots:
                    self._held.pop((segment.number, index), None)
