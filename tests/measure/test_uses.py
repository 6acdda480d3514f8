"""Which loaders are one, where they were made, and which one a script trains from."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from builders import make_facts
from feedrate.measure.places import Place, place_of_making
from feedrate.measure.uses import Use, Uses, pick_most_used, pick_trained


class Loader(SimpleNamespace):
    """Stands for a DataLoader: an object that can be referred to weakly."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


HERE = Place("train.py", 3, (("train.py", 3), ("train.py", 20)))
THERE = Place("train.py", 3, (("train.py", 3), ("train.py", 21)))


def made(uses: Uses, place: Place, **attributes: Any) -> Loader:
    loader = Loader(**attributes)
    uses.made(loader, place)
    return loader


def test_loaders_are_numbered_as_they_are_iterated() -> None:
    uses = Uses()
    first, second = made(uses, HERE), made(uses, THERE)
    assert uses.of(second)[0].number == 0
    assert uses.of(first)[0].number == 1
    assert uses.of(second) == (uses.all[0], False)


def test_a_loader_that_is_made_anew_at_the_same_place_is_the_same() -> None:
    uses = Uses()
    numbers = []
    for _ in range(3):
        loader = made(uses, HERE)
        use, is_new = uses.of(loader)
        numbers.append((use.number, is_new))
    assert numbers == [(0, True)] * 3


def test_two_that_are_made_at_once_are_two() -> None:
    uses = Uses()
    for _ in range(2):
        loaders = {kind: made(uses, HERE) for kind in ("train", "test")}
        assert [uses.of(loaders[kind])[0].number for kind in ("train", "test")] == [0, 1]
        del loaders


def test_one_that_somebody_keeps_is_the_same_as_the_one_made_after_it() -> None:
    uses = Uses()
    kept = []
    for _ in range(3):
        kept.append(made(uses, HERE))
        assert uses.of(kept[-1])[0].number == 0


def test_of_two_at_one_place_that_are_made_anew_the_datasets_tell() -> None:
    uses = Uses()
    train_set, test_set = Loader(), Loader()
    for order in ((train_set, test_set), (test_set, train_set)):
        loaders = [made(uses, HERE, dataset=dataset) for dataset in order]
        for loader in loaders:
            assert uses.of(loader)[0].number == (0 if loader.dataset is train_set else 1)


def test_one_function_that_makes_loaders_for_two_callers() -> None:
    uses = Uses()
    for place, number in ((HERE, 0), (THERE, 1), (HERE, 0)):
        assert uses.of(made(uses, place))[0].number == number


def test_what_a_library_makes_of_the_users_loader_is_at_its_place() -> None:
    uses = Uses()
    data, sampler = object(), object()
    own = made(uses, HERE, dataset=data, batch_sampler=sampler)
    other = made(uses, THERE, dataset=data, batch_sampler=object())
    wrapped = made(uses, Place(path=(("lib.py", 1),)), dataset=data, batch_sampler=sampler)
    use, _ = uses.of(wrapped)
    assert (use.place.file, use.place.line) == ("train.py", 3)
    assert use.place.path == (("lib.py", 1),)
    strange = made(uses, Place(path=(("lib.py", 2),)), dataset=object())
    assert uses.of(strange)[0].place.file is None
    del own, other


def test_loaders_of_which_nobody_saw_the_making_are_apart() -> None:
    uses = Uses()
    loaders = [Loader(), Loader()]
    assert [uses.of(loader)[0].number for loader in loaders] == [0, 1]


def test_the_place_is_the_call_and_not_the_init_of_a_subclass() -> None:
    class Base:
        def __init__(self) -> None:
            self.place = place_of_making(self, sys._getframe(1))

    class Derived(Base):
        def __init__(self) -> None:
            super().__init__()

    line = sys._getframe().f_lineno + 1
    place = Derived().place
    assert (place.file, place.line) == (__file__, line)


def test_what_a_library_makes_has_no_place_in_the_users_code() -> None:
    namespace: dict[str, Any] = {"__name__": "accelerate.data_loader", "find": place_of_making}
    exec("import sys\ndef make(): return find(object(), sys._getframe())", namespace)
    place = namespace["make"]()
    assert place.file is None
    assert place.path


def use(number: int, *, steps: int = 0, waits: float = 0.0, batches: int = 1) -> Use:
    return Use(number, HERE, optimizer_steps=steps, wait_seconds=waits, batches=batches)


def test_the_training_loader_has_the_optimizers_steps() -> None:
    assert pick_trained([use(0, batches=500), use(1, steps=20), use(2, steps=1)]).number == 1  # type: ignore[union-attr]
    assert pick_trained([use(0, batches=500)]) is None


def test_of_loaders_side_by_side_the_one_that_is_waited_for() -> None:
    side = [use(0, steps=20, waits=1.0), use(1, steps=21, waits=0.1)]
    assert pick_trained(side).number == 0  # type: ignore[union-attr]


def test_without_an_optimizer_the_most_used_one() -> None:
    assert pick_most_used([use(0, batches=5), use(1, batches=9)]).number == 1  # type: ignore[union-attr]
    assert pick_most_used([use(0, batches=0)]) is None


def test_what_is_kept_of_a_loader() -> None:
    one = use(3, steps=2)
    assert one.record() is None
    one.facts = make_facts()
    record = one.record()
    assert record is not None
    assert (record.number, record.file, record.line) == (3, "train.py", 3)
    assert record.optimizer_steps == 2
