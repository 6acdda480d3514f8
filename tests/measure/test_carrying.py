"""What comes with a tensor from another process, seen on tensors in shared memory."""

from __future__ import annotations

import sys

import pytest
import torch

from feedrate.measure.carrying import BATCHES, Carrying, mapping_at

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps"),
]

MIB = 2**20


def shared(size: int = MIB) -> torch.Tensor:
    """Return bytes as they arrive from a worker: mapped shared memory."""
    return torch.zeros(size, dtype=torch.uint8).share_memory_()


def test_views_of_storages_of_their_own_are_counted_with_what_they_take_along() -> None:
    carrying = Carrying()
    kept = [shared(), shared(), shared(2 * MIB)]
    for tensor in kept:
        carrying.saw({"image": tensor[:1000], "label": torch.zeros(8)})
    record = carrying.record()
    assert record is not None
    assert (record.view_bytes, record.storage_bytes) == (1000, 2 * MIB)
    assert (record.storages, record.at_once, record.batches) == (3, 1, 3)


def test_several_views_of_one_storage_use_it_together() -> None:
    carrying = Carrying()
    tensor = shared()
    carrying.saw([tensor[i * (MIB // 8) : (i + 1) * (MIB // 8)] for i in range(8)])
    assert carrying.record() is None


def test_views_of_the_same_storage_in_each_batch_are_one() -> None:
    carrying = Carrying()
    tensor = shared()
    for n in range(4):
        carrying.saw(tensor[n * 100 : (n + 1) * 100])
    record = carrying.record()
    assert record is not None
    assert record.storages == 1


def test_what_is_whole_or_did_not_travel_is_nothing() -> None:
    carrying = Carrying()
    carrying.saw([shared(), torch.zeros(MIB)[:10], "text", torch.zeros(3).to_sparse()])
    assert carrying.record() is None


def test_no_more_than_the_first_batches_are_looked_at() -> None:
    asked: list[int] = []

    def name(address: int) -> str:
        asked.append(address)
        return str(address)

    carrying = Carrying(name)
    tensor = shared()
    for _ in range(BATCHES + 5):
        carrying.saw(tensor[:10])
    assert len(asked) == BATCHES


def test_where_mappings_are_not_known_nothing_is_said() -> None:
    carrying = Carrying(lambda address: None)
    carrying.saw(shared()[:10])
    assert carrying.record() is None


def test_a_mapping_has_a_name_and_memory_of_the_process_itself_has_none() -> None:
    first, second = shared(), shared()
    names = {mapping_at(each.untyped_storage().data_ptr()) for each in (first, second)}
    assert None not in names
    assert len(names) == 2
    assert mapping_at(torch.zeros(4 * MIB).data_ptr()) is None
    assert mapping_at(0) is None
