"""The arena: any batch arrives equal, and no slot is filled while somebody can see it."""

from __future__ import annotations

import gc
import io
import os
import pickle
import threading
import warnings
from collections import deque, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from feedrate.loader import allowance as allowance_module
from feedrate.loader.allowance import Allowance
from feedrate.loader.arena import Segment, Writer, aligned, size_class
from feedrate.loader.arena_transport import ArenaDecoder, ArenaEncoder
from feedrate.loader.leases import leases

pytestmark = pytest.mark.torch

Point = namedtuple("Point", "x y")


@dataclass
class Sample:
    image: torch.Tensor
    name: str


class Line:
    """Both sides in one process, with descriptors handed over as a channel does."""

    def __init__(self) -> None:
        self.encoder = ArenaEncoder()
        self.decoder = ArenaDecoder()
        self._descriptors: deque[int] = deque()

    def take_descriptor(self) -> int:
        return self._descriptors.popleft()

    def send(self, data: Any) -> Any:
        body, descriptors = self.encoder.encode(5, data)
        self._descriptors.extend(descriptors)
        number, arrived = self.decoder.decode(memoryview(body), self)  # type: ignore[arg-type]
        assert number == 5
        return arrived

    @property
    def segments(self) -> list[Segment]:
        assert self.encoder._writer is not None
        return self.encoder._writer._segments

    def used(self) -> int:
        return sum(s.slots - len(list(s.free_slots())) for s in self.segments)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return (
            type(one) is type(other)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and one.requires_grad == other.requires_grad
            and torch.equal(
                torch.nan_to_num(one.detach()) if one.is_floating_point() else one.detach(),
                torch.nan_to_num(other.detach()) if other.is_floating_point() else other.detach(),
            )
        )
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Sample):
        return same(one.image, other.image) and one.name == other.name
    return bool(one == other)


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    tensor = torch.randint(0, 2, shape, dtype=torch.int32).to(dtype)
    match draw(st.sampled_from(["plain", "transposed", "sliced", "expanded", "grad"])):
        case "transposed" if tensor.ndim >= 2:
            return tensor.transpose(0, -1)
        case "sliced" if tensor.ndim >= 1 and tensor.shape[0] > 1:
            return tensor[1::2]
        case "expanded":
            return tensor.unsqueeze(0).expand(3, *tensor.shape)
        case "grad" if dtype.is_floating_point:
            return tensor.requires_grad_()
    return tensor


LEAVES = st.one_of(
    tensors(),
    st.integers(),
    st.text(max_size=5),
    st.binary(max_size=50),
    st.none(),
    st.integers(0, 300).map(lambda n: np.arange(n, dtype=np.float32)),
    tensors().map(lambda t: Sample(t.detach(), "name")),
    st.tuples(tensors(), st.integers()).map(lambda pair: Point(*pair)),
)
BATCHES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(st.lists(BATCHES, min_size=1, max_size=5))
def test_any_batch_arrives_equal(batches: list[Any]) -> None:
    line = Line()
    arrived = [line.send(batch) for batch in batches]  # all kept, so no slot may be used twice
    assert all(map(same, batches, arrived))


@given(st.lists(BATCHES, min_size=1, max_size=5))
def test_collating_into_the_slot_changes_nothing(batches: list[Any]) -> None:
    line = Line()
    for batch in batches:
        line.encoder.begin()
        stacked = line.encoder.empty((3, 4), torch.float32)
        whole = torch.stack([torch.full((4,), float(i)) for i in range(3)])
        if stacked is not None:
            torch.stack([torch.full((4,), float(i)) for i in range(3)], out=stacked)
        got, rest = line.send([whole if stacked is None else stacked, batch])
        assert torch.equal(got, whole)
        assert same(rest, batch)
        del stacked


@pytest.fixture(autouse=True)
def collate_map() -> Any:
    """An encoder changes how this process collates; a test must not leave that."""
    from torch.utils.data._utils import collate

    before = dict(collate.default_collate_fn_map)
    yield
    collate.default_collate_fn_map.clear()
    collate.default_collate_fn_map.update(before)


def test_strides_that_leave_no_holes_are_kept() -> None:
    image = torch.arange(120.0).view(2, 3, 4, 5).to(memory_format=torch.channels_last)
    got = Line().send(image)
    assert got.stride() == image.stride()
    assert torch.equal(got, image)


def test_only_the_elements_of_a_view_travel() -> None:
    line = Line()
    big = torch.zeros(1_000_000)
    got = line.send([big[:10], big[500_000:500_010:2], big[:1].expand(1000)])
    assert max(s.slot_size for s in line.segments) <= 8192
    assert [g.untyped_storage().nbytes() for g in got[:2]] == [40, 20]


def test_what_is_shared_in_a_batch_stays_shared() -> None:
    base = torch.arange(10.0)
    whole, part, same_again, every_other = Line().send([base, base[2:5], base, base[::2]])
    assert torch.equal(every_other, base[::2])
    every_other[2] = 44
    assert whole[4] == 44
    part[0] = 99
    assert whole[2] == 99
    same_again[0] = -1
    assert whole[0] == -1


def test_conjugate_and_negative_views_arrive_as_what_they_show() -> None:
    value = torch.tensor([1 + 2j, 3 - 4j])
    conj, imag = Line().send([value.conj(), value.conj().imag])
    assert torch.equal(conj, value.conj().resolve_conj())
    assert torch.equal(imag, torch.tensor([-2.0, 4.0]))


class Odd(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.eye(3).to_sparse(), torch.nn.Parameter(torch.ones(3)), torch.ones(2)


@pytest.mark.filterwarnings("ignore:Sparse")  # torch warns of sparse tensors as such
def test_what_the_arena_cannot_carry_goes_as_torch_sends_it() -> None:
    from feedrate.loader.dataloader import DataLoader

    for sparse, parameter, plain in DataLoader(Odd(), batch_size=None, num_workers=1):
        assert torch.equal(sparse.to_dense(), torch.eye(3))
        assert type(parameter) is torch.nn.Parameter
        assert torch.equal(plain, torch.ones(2))


def test_what_torch_refuses_is_refused() -> None:
    with pytest.raises(RuntimeError, match="requires_grad"):
        Line().send(torch.ones(2, requires_grad=True) * 2)


def test_packed_sequences_and_large_texts() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    text = "x" * 200_000
    got, got_text = Line().send([packed, text])
    assert torch.equal(got.data, packed.data)
    assert got_text == text


def test_arrays_arrive_writable_and_without_a_copy() -> None:
    line = Line()
    got = line.send(np.arange(1000.0))
    got[0] = 7
    assert got[0] == 7
    assert line.used() == 1
    del got
    assert line.used() == 0


def test_a_slot_is_free_when_the_last_of_its_batch_is_gone() -> None:
    line = Line()
    image, label = line.send([torch.ones(10_000, 10), torch.zeros(5)])
    view = image[3:7].numpy()
    del image, label
    gc.collect()
    assert line.used() == 1
    del view
    assert line.used() == 0


def test_slots_are_used_again_and_memory_stays_flat() -> None:
    line = Line()
    for value in range(500):
        got = line.send(torch.full((10_000,), float(value)))
        assert torch.equal(got, torch.full((10_000,), float(value)))
    assert len(line.segments) == 1
    assert line.used() <= 2


def test_kept_batches_keep_their_content() -> None:
    line = Line()
    kept = [line.send(torch.full((10_000,), float(value))) for value in range(300)]
    assert all((tensor == value).all() for value, tensor in enumerate(kept))
    assert len(line.segments) <= 12  # each a descriptor: they grow as there are more


def test_smaller_batches_give_memory_back() -> None:
    line = Line()
    line.send(torch.zeros(1_000_000))
    assert max(s.slot_size for s in line.segments) >= 4_000_000
    for _ in range(400):  # so small that they travel without a slot
        line.send(torch.zeros(10))
    assert max(s.slot_size for s in line.segments) < 100_000
    assert len(line.decoder._segments) == len(line.segments)


@pytest.mark.parametrize("size", [100, 10_000])
def test_changes_in_place_stay_in_their_batch(size: int) -> None:
    line = Line()
    one = line.send(torch.zeros(size))
    other = line.send(torch.zeros(size))
    one += 5
    assert other.sum() == 0
    assert line.send(torch.zeros(size)).sum() == 0


def test_a_tensor_that_the_worker_keeps_is_not_written_over() -> None:
    line = Line()
    line.send(torch.zeros(128, 128))
    line.encoder.begin()
    cached = line.encoder.empty((128, 128), torch.float32)
    assert cached is not None
    cached.fill_(3)
    got = line.send(cached)
    del got
    for _ in range(20):
        line.encoder.begin()
        line.send(torch.zeros(128, 128))
    assert (cached == 3).all()


def test_batches_outlive_worker_and_loader() -> None:
    line = Line()
    got = line.send(torch.arange(100))
    line.decoder.close()
    del line
    gc.collect()
    assert torch.equal(got, torch.arange(100))
    got += 1
    assert got[0] == 1


def test_they_can_be_saved_shared_and_differentiated() -> None:
    line = Line()
    got = line.send(torch.ones(100))
    file = io.BytesIO()
    torch.save(got, file)
    assert len(file.getvalue()) < 4000
    file.seek(0)
    assert torch.equal(torch.load(file), torch.ones(100))
    assert torch.equal(pickle.loads(pickle.dumps(got)), got)
    weight = torch.ones(100, requires_grad=True)
    loss = (weight * got).sum()
    got_again = line.send(torch.zeros(100))
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.sum() == 100
    assert got_again.sum() == 0
    got.share_memory_()
    assert got.is_shared()
    assert got.sum() == 100


def test_a_fork_keeps_what_it_can_see() -> None:
    line = Line()
    got = line.send(torch.full((10_000,), 7.0))
    to_child, from_child = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(to_child[0], 1)  # until the loop has filled many slots
        os.write(from_child[1], b"1" if bool((got == 7).all()) else b"0")
        os._exit(0)
    del got
    for value in range(50):
        line.send(torch.full((10_000,), float(value)))
    assert line.used() >= 1  # the child's
    os.write(to_child[1], b".")
    assert os.read(from_child[0], 1) == b"1"
    os.waitpid(pid, 0)
    leases.settle()
    assert line.used() == 0
    for end in (*to_child, *from_child):
        os.close(end)


def test_batches_may_end_in_any_thread() -> None:
    line = Line()
    kept = [line.send(torch.ones(10_000)) for _ in range(20)]

    def drop() -> None:
        while kept:
            kept.pop()

    threads = [threading.Thread(target=drop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert line.used() == 0


def test_past_the_allowance_batches_are_private_copies_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import feedrate.loader.arena_transport as transport

    monkeypatch.setattr(transport, "allowance", Allowance(limit=200_000))
    line = Line()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = [line.send(torch.full((10_000,), float(value))) for value in range(50)]
    assert all((tensor == value).all() for value, tensor in enumerate(kept))
    assert line.used() <= 5
    assert [str(w.message)[:20] for w in caught] == ["the batches that are"]
    assert allowance_module.allowance.used == 0


@given(st.integers(1, 2**40))
def test_size_classes_waste_little(size: int) -> None:
    made = size_class(size)
    assert made >= size
    assert made <= max(size * 1.125 + 1, size + 4096)
    assert made % 4096 == 0
    assert aligned(size) % 64 == 0


def test_a_writer_never_gives_a_slot_in_use() -> None:
    writer = Writer()
    slots = []
    for _ in range(200):
        slot = writer.open(10_000)
        writer.take(slot)
        slots.append((slot.segment.number, slot.index))
    assert len(set(slots)) == 200
    for descriptor in writer.news().descriptors:
        os.close(descriptor)  # nobody sent them
