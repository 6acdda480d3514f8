"""The hook: iterators stay what they are, whatever loader they are of, and all of it goes again."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.optim import optimizer
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torchs
from watching import Said, target, watch

from feedrate.loader.dataloader import DataLoader as ElasticLoader
from feedrate.measure import wire

pytestmark = pytest.mark.torch
training = target("training")
odd = target("script_odd")
LOOK = wire.Look(seconds=1000.0)  # longer than any of these: it only watches


def look(function: Any) -> Said:
    return watch(LOOK, function)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", [DataLoader, ElasticLoader])
def test_an_iterator_is_what_it_was(workers: int, kind: Any) -> None:
    options: dict[str, Any] = {"num_workers": workers, "batch_size": 4}

    def iterate() -> None:
        loader = kind(training.Numbers(8), persistent_workers=workers > 0, **options)
        expected = torchs._MultiProcessingDataLoaderIter if workers else None
        first = iter(loader)
        assert isinstance(first, expected or torchs._SingleProcessDataLoaderIter)
        assert len(first) == 2
        assert [batch[0][0, 0].item() for batch in first] == [0.0, 4.0]
        assert list(first) == []  # it has come to its end, and stays there
        second = iter(loader)
        assert (second is first) == (workers > 0)  # persistent workers keep theirs
        assert len(list(second)) == 2
        if workers:
            first._shutdown_workers()

    said = look(iterate)
    (use,) = said.used.loaders
    assert (use.epochs, use.complete_epochs, use.batches) == (2, 2, 4)


def test_all_of_it_goes_again() -> None:
    before = (dict(vars(DataLoader)), inspect.signature(DataLoader))

    def script() -> None:
        class Late(DataLoader):  # type: ignore[type-arg]
            def __iter__(self) -> Any:
                return super().__iter__()

        kinds.append(Late)
        assert inspect.signature(DataLoader) == before[1]
        assert inspect.signature(DataLoader.__init__).parameters.keys() >= {"dataset"}

    kinds: list[type] = []
    look(script)
    assert dict(vars(DataLoader)) == before[0]
    assert not hasattr(vars(kinds[0])["__iter__"], "__wrapped__")
    assert not optimizer._global_optimizer_post_hooks


def test_batches_are_those_of_the_loader() -> None:
    def batches() -> list[list[float]]:
        loader = training.make_loader(
            20, shuffle=True, generator=torch.Generator().manual_seed(1), num_workers=1
        )
        return [x[:, 0].tolist() for x, _ in loader]

    found: list[list[float]] = []
    look(lambda: found.extend(batches()))
    assert found == batches()


@pytest.mark.parametrize("name", ["Shard", "Own", "Endless"])
def test_a_subclass_with_its_own_way_to_iterate(name: str) -> None:
    kind = getattr(odd, name)

    def script() -> None:
        trainer = training.Trainer()
        loader = kind(training.Numbers(40), batch_size=4)
        for _ in range(3):
            assert sum(1 for batch in loader if trainer.step(batch) is None) == 10

    said = look(script)
    (use,) = said.used.loaders
    assert use.batches == 30
    assert use.optimizer_steps >= 27  # a step after the last batch is after the end
    assert (use.epochs, use.complete_epochs) == ((1, 1) if name == "Endless" else (3, 3))
    assert use.file is not None
    assert use.file.endswith("test_hook.py")


def test_a_subclass_that_has_an_iterator_of_its_own() -> None:
    class Batches:
        def __init__(self) -> None:
            self.left = 3

        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return torch.zeros(4)

    class Simple(DataLoader):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            return Batches()

    def script() -> None:
        iterator = iter(Simple([1]))
        assert isinstance(iterator, Batches)
        assert iterator.left == 3
        assert len(list(iterator)) == 3

    (use,) = look(script).used.loaders
    assert (use.batches, use.complete_epochs) == (3, 1)


def test_a_generator_that_is_given_up_is_closed() -> None:
    closed = []

    class Careful(DataLoader):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            try:
                yield from range(10)
            finally:
                closed.append(True)

    def script() -> None:
        for number in Careful([1]):
            if number == 3:
                break

    look(script)
    assert closed == [True]


def test_loaders_are_told_apart_and_counted() -> None:
    def script() -> None:
        trainer = training.Trainer()
        train = training.make_loader(40)
        test = training.make_loader(8)
        next(iter(train))
        for _ in range(2):
            for number, batch in enumerate(train):
                trainer.step(batch)
                if number == 5:
                    trainer.test(test)
        trainer.test(test)

    said = look(script)
    train, test = said.used.loaders
    assert (train.number, train.epochs, train.complete_epochs, train.batches) == (0, 3, 2, 21)
    assert train.optimizer_steps == 20
    assert (test.number, test.epochs, test.batches, test.optimizer_steps) == (1, 3, 6, 0)
    assert said.used.training_loader == 0
    assert train.facts.length == 10
    assert train.facts.batch_bytes == 4 * 3 * 4 + 4 * 8
    assert said.used.startup_seconds is not None


def test_loaders_side_by_side_both_train() -> None:
    def script() -> None:
        trainer = training.Trainer()
        pair = zip(training.make_loader(40), training.make_loader(40), strict=True)
        for one, _ in pair:
            trainer.step(one)

    first, second = look(script).used.loaders
    assert first.optimizer_steps in (9, 10)  # it has given its last batch when the last step comes
    assert second.optimizer_steps == 10


def test_a_validation_is_no_part_of_a_step() -> None:
    def script() -> None:
        trainer = training.Trainer()
        train, test = training.make_loader(400), training.make_loader(8)
        for number, batch in enumerate(train):
            trainer.step(batch)
            if number % 10 == 5:
                trainer.test(test)

    (window,) = look(script).windows
    assert 80 < window.batches < 91  # of a hundred, ten with a test; a few had to settle


def test_nothing_is_watched_in_another_process() -> None:
    class Nested(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return sum(len(x) for x, _ in training.make_loader(8))

    def script() -> None:
        assert next(iter(DataLoader(Nested(), batch_size=4, num_workers=1))).tolist() == [8] * 4
        pid = os.fork()
        if pid == 0:
            os._exit(len(list(training.make_loader(8))))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2

    (use,) = look(script).used.loaders
    assert use.batches == 1


def test_errors_of_the_loader_come_through() -> None:
    def broken(rows: Any) -> Any:
        raise ValueError("rows do not fit")

    with pytest.raises(ValueError, match="rows do not fit"):
        look(lambda: next(iter(training.make_loader(8, collate_fn=broken))))
