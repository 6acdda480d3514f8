"""Where the loop stands still: a loader of this process, and a session that nobody answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from watching import Said, watch

from feedrate.measure import wire
from feedrate.measure.rhythm import PHASES, Rhythm
from feedrate.memory_records import BatchCarried

pytestmark = pytest.mark.torch

LONG = 1000.0


class Items(Dataset[int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(12))


def leaks(**fields: Any) -> wire.Leaks:
    # with all of the time to spend each pass is looked at in every phase
    return wire.Leaks(**({"seconds": LONG, "fewest": 3, "duty": 1.0} | fields))


def passes(loader: Any, count: int, *, step: Callable[[], None] = lambda: None) -> None:
    for _ in range(count):
        for _batch in loader:
            step()


def marks(said: Said) -> list[wire.Mark]:
    return said.of(wire.Mark)


def of_epoch(said: Said, epoch: int) -> list[wire.Mark]:
    return [mark for mark in marks(said) if mark.epoch == epoch]


def test_each_pass_stops_at_its_first_and_at_its_last_batch() -> None:
    loader = DataLoader(Items(40), batch_size=4)
    said = watch(leaks(), lambda: passes(loader, 3), is_script=False)
    for epoch in range(3):
        stops = of_epoch(said, epoch)
        assert (stops[0].batches, stops[-1].batches) == (1, 10)
        assert [mark.is_end for mark in stops[:-1]] == [False] * (len(stops) - 1)
        assert stops[-1].is_end
        assert stops[-1].items == 40 * (epoch + 1)
        assert stops[0].length == 10
    assert len(of_epoch(said, 2)) == PHASES + 1, "as many phases as the time allows"
    assert all(mark.workers == () for mark in marks(said))


def test_it_is_over_after_so_many_passes() -> None:
    loader = DataLoader(Items(8), batch_size=4)
    said = watch(leaks(epochs=2), lambda: passes(loader, 9), is_script=False)
    assert said.is_complete
    assert {mark.epoch for mark in marks(said)} == {0, 1}
    assert said.used.training_loader == 0
    (window,) = said.windows
    assert (window.items, window.batches, window.phase) == (8, 2, "own"), "starts are left out"


def test_it_is_over_when_the_time_is_up() -> None:
    loader = DataLoader(Items(8), batch_size=4)
    said = watch(leaks(seconds=0.0), lambda: passes(loader, 9), is_script=False)
    assert said.is_complete
    assert [mark.is_last for mark in marks(said)] == [False, True]


def test_a_pass_that_is_cut_ends_at_its_last_batch() -> None:
    loader = DataLoader(Items(40), batch_size=4)

    def cut() -> None:
        for _ in range(3):
            for number, _batch in enumerate(loader, 1):
                if number == 3:
                    break

    said = watch(leaks(max_batches=3), cut, is_script=False)
    ends = [(mark.epoch, mark.batches) for mark in marks(said) if mark.is_end]
    assert ends == [(0, 3), (1, 3), (2, 3)]


def test_a_loop_that_leaves_early_by_itself_is_looked_at_when_it_has() -> None:
    loader = DataLoader(Items(40), batch_size=4)

    def leave() -> None:
        for _ in range(4):
            for number, _batch in enumerate(loader, 1):
                if number == 3:
                    break

    said = watch(leaks(), leave, is_script=False)
    ends = [(mark.epoch, mark.batches) for mark in marks(said) if mark.is_end]
    assert ends[:3] == [(0, 3), (1, 3), (2, 3)], "the second and third as the first ended"


def test_a_look_at_one_batch_does_not_cut_the_passes_that_follow() -> None:
    loader = DataLoader(Items(40), batch_size=4)

    def look_and_train() -> None:
        next(iter(loader))
        passes(loader, 3)

    said = watch(leaks(), look_and_train, is_script=False)
    ends = [(mark.epoch, mark.batches, mark.items) for mark in marks(said) if mark.is_end]
    assert ends == [(0, 1, 4), (1, 10, 44), (2, 10, 84), (3, 10, 124)]
    assert len(of_epoch(said, 3)) == PHASES + 1


def test_a_pass_that_goes_on_after_its_foreseen_end_is_followed_to_its_own() -> None:
    loader = DataLoader(Items(40), batch_size=4)

    def warm_up_and_train() -> None:
        for _ in range(2):
            for number, _batch in enumerate(loader, 1):
                if number == 3:
                    break
        passes(loader, 2)

    said = watch(leaks(), warm_up_and_train, is_script=False)
    ends = [(mark.epoch, mark.batches, mark.items) for mark in marks(said) if mark.is_end]
    assert ends == [(0, 3, 12), (1, 3, 24), (2, 3, 36), (2, 10, 64), (3, 10, 104)]


def test_a_stream_that_is_longer_than_it_says_is_counted_whole() -> None:
    class Short(Stream):
        def __len__(self) -> int:
            return 8

    loader = DataLoader(Short(), batch_size=2)
    said = watch(leaks(), lambda: passes(loader, 2), is_script=False)
    ends = [(mark.epoch, mark.batches, mark.items) for mark in marks(said) if mark.is_end]
    assert ends == [(0, 4, 8), (0, 6, 12), (1, 6, 24)]


def test_the_time_can_be_up_in_a_pass_that_goes_on_after_its_foreseen_end() -> None:
    loader = DataLoader(Items(400), batch_size=4)
    batches = 0

    def warm_up_and_train(monkeypatch: pytest.MonkeyPatch) -> None:
        nonlocal batches
        for _ in range(2):
            for number, _batch in enumerate(loader, 1):
                if number == 3:
                    break
        for _batch in loader:
            batches += 1
            if batches == 20:
                monkeypatch.setattr(Rhythm, "elapsed", LONG)

    with pytest.MonkeyPatch.context() as monkeypatch:
        said = watch(leaks(), lambda: warm_up_and_train(monkeypatch), is_script=False)
    assert said.is_complete
    (last,) = [mark for mark in marks(said) if mark.is_last]
    assert (last.epoch, last.batches, last.is_end) == (2, 21, False)


def test_a_new_iterator_for_every_batch_is_a_pass_for_every_batch() -> None:
    loader = DataLoader(Items(40), batch_size=4)

    def one_each() -> None:
        for _ in range(5):
            next(iter(loader))

    said = watch(leaks(), one_each, is_script=False)
    assert [mark.epoch for mark in marks(said) if mark.is_end] == [0, 1, 2, 3, 4][
        : len([mark for mark in marks(said) if mark.is_end])
    ]
    (use,) = said.used.loaders
    assert (use.epochs, use.batches) == (5, 5)


def test_a_stream_ends_when_it_says_so_and_is_known_from_then_on() -> None:
    loader = DataLoader(Stream(), batch_size=4)
    said = watch(leaks(), lambda: passes(loader, 2), is_script=False)
    ends = [(mark.epoch, mark.batches) for mark in marks(said) if mark.is_end]
    assert ends == [(0, 3), (1, 3)]
    assert of_epoch(said, 0)[0].length is None
    assert of_epoch(said, 1)[0].length == 3


def test_of_a_scripts_loaders_the_one_that_trains_is_watched() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training, validation = DataLoader(Items(8), batch_size=4), DataLoader(Items(6), batch_size=2)

    def script() -> None:
        passes(validation, 1)
        for _ in range(3):
            passes(training, 1, step=optimizer.step)
            passes(validation, 1)

    said = watch(leaks(), script)
    assert said.used.training_loader == 1
    after = [mark.loader for mark in marks(said)]
    assert after.count(1) == 6
    assert 0 in after[:2], "nobody knew yet"
    assert 0 not in after[3:]


def test_a_script_that_ends_by_itself_tells_what_there_is() -> None:
    loader = DataLoader(Items(8), batch_size=4)
    said = watch(leaks(), lambda: passes(loader, 1))
    assert not said.is_complete
    assert said.used.training_loader == 0
    assert len(said.windows) == 1


def test_a_script_that_iterates_nothing_has_no_loader() -> None:
    assert watch(leaks(), lambda: None).used.training_loader is None


class Crops(Dataset[Any]):
    """Gives 1,000 bytes of an image of 4 MiB: of a new one each time, or of one for all."""

    def __init__(self, image: torch.Tensor | None = None) -> None:
        self.image = image

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        image = torch.zeros(4 * 2**20, dtype=torch.uint8) if self.image is None else self.image
        return image[1000 * index : 1000 * (index + 1)]


def carried(dataset: Crops, **options: Any) -> BatchCarried | None:
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=None, **options)
    said = watch(leaks(epochs=1), lambda: passes(loader, 1), is_script=False)
    return marks(said)[-1].carried


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_views_from_workers_take_their_storages_along() -> None:
    found = carried(Crops(), num_workers=2)
    assert found is not None
    assert (found.view_bytes, found.storage_bytes) == (1000, 4 * 2**20)
    assert found.storages == found.batches == 12


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_views_of_what_is_shared_anyway_are_of_one_storage() -> None:
    image = torch.zeros(4 * 2**20, dtype=torch.uint8).share_memory_()
    found = carried(Crops(image), num_workers=2)
    assert found is not None
    assert found.storages == 1


def test_views_of_this_process_do_not_travel() -> None:
    assert carried(Crops()) is None


def test_what_workers_may_read_is_looked_at_once_before_they_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[Any] = []

    def look(dataset: Any) -> int:
        looked_at.append(dataset)
        return 77

    monkeypatch.setattr("feedrate.measure.memory_session.readable_bytes", look)
    items = Items(8)

    def anew() -> None:
        for _ in range(3):
            for _batch in DataLoader(items, batch_size=4, num_workers=1):
                pass

    said = watch(leaks(), anew)
    assert looked_at == [items]
    assert {mark.readable for mark in marks(said)} == {77}
    said = watch(leaks(), lambda: passes(DataLoader(items, batch_size=4), 2), is_script=False)
    assert looked_at == [items], "nobody inherits anything"
    assert {mark.readable for mark in marks(said)} == {None}


def test_the_list_of_indices_is_told_with_the_first_mark() -> None:
    loader = DataLoader(Items(200_000), batch_size=4, shuffle=True)
    said = watch(leaks(epochs=1, max_batches=2), lambda: passes(loader, 1), is_script=False)
    found = marks(said)[0].indices
    assert found is not None
    assert found.count == 200_000


def test_a_loader_of_which_some_batches_were_looked_at_before_is_not_the_one_that_trains() -> None:
    first = DataLoader(Items(40), batch_size=4)
    second = DataLoader(Items(24), batch_size=4)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []

    def script() -> None:
        kept.append(iter(first))  # a sanity check, which is not gone on with
        next(kept[-1])
        passes(second, 3, step=optimizer.step)

    said = watch(leaks(), script)
    assert said.used.training_loader == 1
    assert [mark.is_end for mark in of_epoch(said, 2) if mark.loader == 1][-1]
