"""The sessions: what is measured, of which loader, and that it ends when it is enough."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from watching import Said, target, watch

from feedrate.measure import wire
from feedrate.settings import LoaderSettings

pytestmark = pytest.mark.torch
training = target("training")
odd = target("script_odd")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A step of more threads than there are free CPUs takes a thousand times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def quiet_suggestion() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def look(function: Any, seconds: float = 0.1, **options: Any) -> Said:
    return watch(wire.Look(seconds=seconds, **options), function)


def phases(said: Said) -> list[str]:
    return [window.phase for window in said.windows]


@pytest.mark.parametrize(
    ("name", "number", "level"),
    [
        ("shard", 0, 0),
        ("endless", 0, 0),
        ("own", 0, 0),
        ("anew", 0, 1),
        ("one_place", 1, 0),
        ("with_means", 0, 1),
        ("changes_batches", 0, 0),
        ("stream", 0, 1),
    ],
)
def test_a_look_finds_the_training_loader_and_the_ceiling(
    name: str, number: int, level: int
) -> None:
    said = look(getattr(odd, name))
    assert said.is_complete
    assert said.used.training_loader == number
    assert phases(said) == ["own", "cached"]
    own, cached = said.windows
    assert (own.level, own.items) == (level, own.batches * 4)
    assert cached.wait_seconds == 0.0
    assert cached.items == cached.batches * 4
    assert own.batches == len(own.batch_waits) == len(own.batch_steps)
    use = next(use for use in said.used.loaders if use.number == number)
    assert use.optimizer_steps > 0
    assert isinstance(said.messages[0], wire.Ready)
    assert isinstance(said.messages[-1], wire.Finished)


def test_waiting_is_told_from_the_step() -> None:
    said = look(lambda: odd.train(training.make_loader(4000, 0.002)))
    own, cached = said.windows
    assert own.wait_seconds > 0.008 * own.batches  # sleeping never ends early
    assert cached.wait_seconds == 0


def test_epochs_keep_their_length_when_the_batch_is_cached() -> None:
    lengths: list[int] = []

    def script() -> None:
        trainer = training.Trainer()
        loader = training.make_loader(40, 0.001, num_workers=1)
        for _ in range(1000):
            count = 0
            for batch in loader:
                trainer.step(batch)
                count += 1
            lengths.append(count)

    said = look(script)
    assert said.is_complete
    assert set(lengths) == {10}


def test_a_loop_without_an_optimizer_is_measured_after_a_while() -> None:
    said = look(odd.inference)
    assert phases(said) == ["own", "cached"]
    assert said.used.loaders[0].optimizer_steps == 0


def test_a_number_names_the_loader() -> None:
    said = look(odd.one_place, seconds=0.02, loader=0)
    assert said.used.training_loader == 0
    assert said.used.loaders[0].optimizer_steps == 0


def test_a_script_that_ends_early_says_what_there_is() -> None:
    said = look(lambda: odd.train(training.make_loader(40), epochs=2), seconds=1000)
    assert not said.is_complete
    (window,) = said.windows
    assert window.phase == "own"
    assert window.batches == 10  # the second epoch
    assert said.used.training_loader == 0
    few = look(odd.three_batches, seconds=1000)
    assert [window.batches for window in few.windows] == [2]


def test_a_script_that_ends_within_the_ceiling() -> None:
    def script() -> None:
        odd.train(training.make_loader(160, 0.001), epochs=1)

    said = look(script, seconds=0.04)
    assert said.used.training_loader == 0
    assert phases(said)[0] == "own"


# Given settings


def static(function: Any, workers: int | None = None, **options: Any) -> Said:
    fields: dict[str, Any] = {"seconds": 0.1, "loader": 0} | options
    settings = None if workers is None else LoaderSettings(num_workers=workers)
    return watch(wire.Static(**fields), function, settings)


@pytest.mark.parametrize("name", ["shard", "anew", "stream", "changes_batches"])
@pytest.mark.parametrize("workers", [0, 2])
def test_settings_are_set_on_a_scripts_loader(name: str, workers: int) -> None:
    said = static(getattr(odd, name), workers)
    assert said.is_complete
    (window,) = said.windows
    assert (window.phase, window.level) == ("static", workers)
    assert said.used.loaders[0].facts.num_workers == workers
    assert window.batches


def test_without_settings_the_loader_is_as_it_was() -> None:
    said = static(odd.anew)
    assert said.windows[0].level == 1


def test_another_loader_is_left_alone() -> None:
    said = static(odd.one_place, 2, loader=1)
    test, train = said.used.loaders
    assert (test.facts.num_workers, train.facts.num_workers) == (0, 2)
    assert said.used.training_loader == 1


def test_a_pass_that_does_not_train_is_no_window() -> None:
    def script() -> None:
        loader = training.make_loader(4000)
        trainer = training.Trainer()
        trainer.test(loader)
        reached.append(True)
        odd.train(loader)

    reached: list[bool] = []
    assert static(script, 0, trained=True).is_complete
    assert reached


def test_short_epochs_are_measured_with_their_starts() -> None:
    said = static(odd.anew, 1)
    (window,) = said.windows
    assert window.batches % 10 == 0  # whole epochs
    assert window.wait_seconds > sum(window.batch_waits)  # finding the end is in it


def test_a_loop_that_never_asks_for_one_more_than_there_are() -> None:
    """Lightning counts, and leaves an iterator before it tells its end."""

    def script() -> None:
        trainer = training.Trainer()
        loader = training.make_loader(40)
        for _ in range(1000):
            iterator = iter(loader)
            for _ in range(len(loader)):
                trainer.step(next(iterator))

    said = static(script, 0)
    assert said.is_complete
    assert said.windows[0].batches % 9 == 0  # the last batch's step is nobody's
    (use,) = said.used.loaders
    assert use.complete_epochs == use.epochs
    said = look(script)
    assert phases(said) == ["own", "cached"]


def test_settings_that_cannot_be_are_refused() -> None:
    def script() -> None:
        odd.train(training.DataLoader(training.Numbers(8), batch_sampler=[[0, 1]]))

    settings = LoaderSettings(num_workers=0, batch_size=8)
    said = watch(wire.Static(seconds=0.1, loader=0), script, settings)
    assert said.is_complete
    assert "cannot be varied" in said.error.sentence


# A ramp


def ramp(function: Any, **options: Any) -> Said:
    fields: dict[str, Any] = {"seconds": 60.0, "loader": 0, "most_workers": 3, "tolerance": 0.03}
    return watch(wire.Ramp(**(fields | options)), function)


def test_workers_grow_and_every_window_is_told() -> None:
    said = ramp(lambda: odd.train(training.make_loader(4000, 0.005)))
    assert said.is_complete
    levels = [window.level for window in said.windows]
    assert levels[0] == 1
    assert max(levels) == 3  # a step takes far less than an item: more would help
    for window in said.windows:
        assert window.phase == "ramp"
        assert window.items == 4 * window.batches
        assert window.fetch_seconds is not None
        assert window.fetch_seconds >= 4 * 0.005
    assert said.choices[-1].level == 3
    assert said.used.training_loader == 0
    assert said.used.loaders[0].facts.num_workers == 1


def test_a_ramp_ends_when_its_time_is_up() -> None:
    said = ramp(lambda: odd.train(training.make_loader(4000, 0.005)), seconds=0.8)
    assert said.is_complete
    assert {window.level for window in said.windows} <= {1}


def test_a_ramp_goes_on_where_a_loader_is_made_anew() -> None:
    def script() -> None:
        trainer = training.Trainer()
        for _ in range(1000):
            for batch in training.make_loader(400, 0.005):
                trainer.step(batch)

    said = ramp(script, most_workers=2)
    assert said.is_complete
    assert [window.level for window in said.windows][:2] == [1, 2]


def test_a_budget_is_kept() -> None:
    said = ramp(lambda: odd.train(training.make_loader(4000, 0.005)), ram_bytes=1)
    assert said.is_complete
    assert {window.level for window in said.windows} == {1}


def test_an_iterable_dataset_cannot_be_ramped() -> None:
    said = ramp(odd.stream)
    assert said.is_complete
    assert said.windows == []
    assert said.error.kind == "fixed_workers"


def test_a_loader_with_its_own_way_cannot_be_ramped() -> None:
    said = ramp(odd.own)
    assert said.error.kind == "fixed_workers"
    assert "Own" in said.error.sentence


def test_steps_of_a_pass_that_does_not_train_steer_nothing() -> None:
    def script() -> None:
        loader = training.make_loader(600, 0.001)
        training.Trainer().test(loader)
        odd.train(loader)

    said = ramp(script, trained=True, most_workers=1)
    assert said.is_complete
    first = said.messages.index(said.of(wire.WindowDone)[0])
    seen = [
        message.batches for message in said.messages[:first] if isinstance(message, wire.Progress)
    ]
    assert max(seen) > 150  # no window was told before the pass had ended
