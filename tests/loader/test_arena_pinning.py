"""Slots that are pinned where they are: the device is a fake, the arenas are real."""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from fake_device import FakeDevice

from feedrate.loader.arena import anonymous_memory, segment_size
from feedrate.loader.arena_transport import ArenaDecoder, ArenaEncoder
from feedrate.loader.pinning import PinnedSegment, Pinning

pytestmark = pytest.mark.torch

LARGE = 50_000
"""Elements of a batch that goes through a slot, and not by message."""


class Line:
    """Both sides in one process, the loop's with a device that its slots are pinned for."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.pinning = Pinning(device)
        self.encoder = ArenaEncoder()
        self.decoder = ArenaDecoder()
        self.decoder.pinning = self.pinning
        self.loop = self.pinning.begin()
        self._descriptors: deque[int] = deque()

    def take_descriptor(self) -> int:
        return self._descriptors.popleft()

    def send(self, data: Any) -> Any:
        body, descriptors = self.encoder.encode(5, data)
        self._descriptors.extend(descriptors)
        return self.decoder.decode(memoryview(body), self)[1]  # type: ignore[arg-type]

    def used(self) -> int:
        assert self.encoder._writer is not None
        segments = self.encoder._writer._segments
        return sum(s.slots - len(list(s.free_slots())) for s in segments)

    def settle(self) -> None:
        for _ in range(3):  # what has passed, then a fence for the rest, then these
            self.pinning.settle()


@pytest.fixture(autouse=True)
def collate_map() -> Iterator[None]:
    """An encoder changes how this process collates; a test must not leave that."""
    from torch.utils.data._utils import collate

    before = dict(collate.default_collate_fn_map)
    yield
    collate.default_collate_fn_map.clear()
    collate.default_collate_fn_map.update(before)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "copy", "copy", "drop", "drop", "run", "capture"]),
        st.integers(0, 30),
        st.integers(0, 2),
    ),
    max_size=60,
)


@settings(max_examples=100)
@given(STEPS)
def test_no_copy_ever_reads_another_batch(steps: list[tuple[str, int, int]]) -> None:
    device = FakeDevice()
    line = Line(device)
    kept: list[Any] = []
    value = 0.0
    for what, number, stream in steps:
        if what == "send":
            value += 1
            size = (LARGE, 3 * LARGE, LARGE // 4)[stream]
            kept.append(line.send(torch.full((size,), value)))
            assert (kept[-1] == value).all()
        elif what == "run":
            device.run(stream, number)
        elif what == "capture":
            device.capturing = not device.capturing
        elif kept:
            place = number % len(kept)
            if what == "copy":
                device.copy(kept[place], stream)
            else:
                del kept[place]
    device.capturing = False
    kept.clear()
    line.settle()
    device.finish()
    line.settle()
    assert device.wrong == []
    if value:
        assert line.used() == 0
        assert line.pinning.held_back == 0
    line.decoder.close()
    assert device.registered == {}
    assert device.wrong == []


def test_batches_arrive_pinned_and_each_slot_is_pinned_once() -> None:
    device = FakeDevice()
    line = Line(device)
    for value in range(100):
        batch = line.send([torch.full((LARGE,), float(value)), torch.zeros(7)])
        assert all(device.is_pinned(tensor) for tensor in batch)
        device.copy(batch[0], value % 3)
        device.run(value % 3, 1)
    slots = sum(segment.slots for segment in line.encoder._writer._segments)  # type: ignore[union-attr]
    assert slots < 20
    assert device.registrations <= slots
    assert device.wrong == []


def test_while_a_device_reads_a_slot_it_is_not_used_again() -> None:
    device = FakeDevice()
    line = Line(device)
    for value in range(5):
        device.copy(line.send(torch.full((LARGE,), float(value))), 0)
    assert line.used() == 5
    device.run(0, 3)
    line.settle()
    assert line.used() == 3  # the first two had a fence each, the others one behind the last copy
    device.finish()
    line.settle()
    assert line.used() == 0
    assert device.wrong == []


def test_large_segments_are_pinned_slot_by_slot_and_small_slots_together() -> None:
    device = FakeDevice()
    line = Line(device)
    kept = [line.send(torch.zeros(LARGE)) for _ in range(4)]
    assert device.registrations == 1
    kept += [line.send(torch.zeros(10 * LARGE)) for _ in range(5)]
    assert device.registrations == 6
    assert len({tensor.data_ptr() for tensor in kept}) == 9
    assert sum(device.registered.values()) < 12 * 2**20


def test_slots_may_end_in_any_thread() -> None:
    device = FakeDevice()
    line = Line(device)
    kept = [line.send(torch.ones(LARGE)) for _ in range(20)]
    for tensor in kept:
        device.copy(tensor, 1)
    del tensor

    parts = [kept[:7], kept[7:14], kept[14:]]
    kept.clear()
    threads = [threading.Thread(target=part.clear) for part in parts]
    for thread in threads:
        thread.start()
    for value in range(20):
        line.send(torch.full((LARGE,), float(value)))
    for thread in threads:
        thread.join()
    device.finish()
    line.settle()
    assert line.used() == 0
    assert device.wrong == []


def test_when_no_loop_reads_the_end_of_a_batch_settles() -> None:
    device = FakeDevice()
    line = Line(device)
    kept = [line.send(torch.full((LARGE * 10,), float(value))) for value in range(5)]
    for tensor in kept:
        device.copy(tensor, 0)
    line.decoder.close()
    line.pinning.end(line.loop)
    del tensor, kept[1:]
    assert len(device.registered) == 5  # what is read stays mapped
    device.finish()
    kept.clear()
    assert len(device.registered) < 5
    line.settle()
    assert device.registered == {}
    assert device.wrong == []


def test_what_is_mapped_is_unpinned_first_and_only_once() -> None:
    device = FakeDevice()
    line = Line(device)
    line.send(torch.zeros(LARGE))
    line.settle()
    assert device.registered
    del line
    gc.collect()
    assert device.registered == {}
    assert device.wrong == []


def test_a_segment_is_given_back_when_batches_get_smaller() -> None:
    device = FakeDevice()
    line = Line(device)
    line.send(torch.zeros(50 * LARGE))
    for _ in range(400):
        line.send(torch.zeros(LARGE))
    assert max(device.registered.values()) < 50 * LARGE
    assert device.wrong == []


def test_a_device_that_refuses_is_asked_no_more_and_batches_stay_right() -> None:
    device = FakeDevice(most=15 * 2**20)
    line = Line(device)
    kept = [line.send(torch.full((20 * LARGE,), float(value))) for value in range(8)]
    assert [device.is_pinned(tensor) for tensor in kept] == [True] * 3 + [False] * 5
    assert not line.pinning.works
    assert device.registrations == 3
    for tensor in kept:
        device.copy(tensor, 0)
    del tensor
    kept = kept[2:]
    for value in range(20):
        line.send(torch.full((20 * LARGE,), 100.0 + value))
    assert [int(tensor[0]) for tensor in kept] == list(range(2, 8))
    device.finish()
    assert device.wrong == []


def test_a_device_that_fails_gets_private_copies_from_then_on() -> None:
    device = FakeDevice()
    line = Line(device)
    for value in range(3):
        device.copy(line.send(torch.full((LARGE,), float(value))), 0)
    device.fails = True
    arrived = [line.send(torch.full((LARGE,), float(value))) for value in range(10)]
    assert not line.pinning.works
    assert not any(device.is_pinned(tensor) for tensor in arrived[1:])
    assert [int(tensor[0]) for tensor in arrived] == list(range(10))
    held = line.used()
    for _ in range(20):
        line.send(torch.zeros(LARGE))
    assert line.used() == held  # nothing is freed that may be read, and nothing more is held
    device.fails = False
    device.finish()
    assert device.wrong == []


def test_a_capture_is_left_alone() -> None:
    device = FakeDevice()
    line = Line(device)
    device.copy(line.send(torch.zeros(LARGE)), 0)
    device.capturing = True
    fences = device.fences
    for value in range(10):
        assert (line.send(torch.full((LARGE * 10,), float(value))) == value).all()
    assert device.fences == fences
    device.capturing = False
    device.finish()
    line.settle()
    assert line.used() == 0
    assert device.wrong == []


def test_a_forked_process_leaves_the_device_and_the_slots_alone() -> None:
    device = FakeDevice()
    line = Line(device)
    batch = line.send(torch.full((LARGE,), 3.0))
    device.copy(line.send(torch.full((LARGE,), 4.0)), 0)
    used = line.used()
    pid = os.fork()
    if pid == 0:
        right = batch.tolist() == [3.0] * LARGE  # torch's own threads are not here
        del batch
        line.settle()
        right = right and line.used() == used
        line.decoder.close()
        del line
        gc.collect()
        os._exit(0 if right and not device.wrong else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert line.used() == used
    device.finish()
    line.settle()
    assert line.used() == 1
    assert device.wrong == []


def test_parts_are_whole_and_their_own() -> None:
    device = FakeDevice()
    for slot_size, slots in ((4096, 256), (4096, 4096), (1 << 20, 3), (45056, 23), (45056, 46)):
        descriptor = anonymous_memory(segment_size(slot_size, slots))
        segment = PinnedSegment(1, descriptor, slot_size, slots, device, lambda free: free())
        os.close(descriptor)
        assert all(segment.pin(index) for index in reversed(range(slots)))
        assert sum(device.registered.values()) == slot_size * slots
        del segment
        assert device.registered == {}
    assert device.wrong == []
