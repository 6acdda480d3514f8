"""The second pass around a loop that is the target's own."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")
from feedrate.loader.torch_private import end_workers
from feedrate.measure import wire
from feedrate.measure.causes.inspection import Caused, Causes, Inspection
from feedrate.measure.causes.session import CausesSession
from feedrate.measure.hook import Hook
from feedrate.measure.sessions import Enough
from feedrate.measure.target import load_module
from feedrate.settings import LoaderSettings

GROWING = Path(__file__).parents[2] / "targets" / "growing.py"
SECONDS = 4.0
"""How long a pass may take. It ends after a quarter of it where it has seen enough."""


@pytest.fixture(scope="module")
def growing() -> ModuleType:
    return load_module(str(GROWING))


@pytest.fixture(autouse=True)
def forgotten(growing: ModuleType) -> Iterator[None]:
    yield
    growing.forget()


def inspected(
    spec: Causes,
    script: Callable[[], object],
    settings: LoaderSettings | None = None,
    loaders: Sequence[Any] = (),
) -> tuple[Inspection, list[Any]]:
    """Run a function under the session; return what was seen, and all that was said."""
    said: list[Any] = []
    hook = Hook(CausesSession(said.append, spec, settings))
    hook.install()
    try:
        script()
        hook.session.close()
    except Enough:
        pass
    finally:
        hook.remove()
        for loader in loaders:
            end_workers(getattr(loader, "_iterator", None))  # which the loader would keep
    (caused,) = (each for each in said if isinstance(each, Caused))
    return caused.inspection, said


def test_a_local_variable_of_the_loop(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Plain())

    def script() -> None:
        losses = []
        while True:
            for batch in loader:
                losses.append(growing.MODEL(batch).sum())  # noqa: PERF401

    seen, said = inspected(Causes(seconds=SECONDS), script)
    cause = seen.objects[0]
    assert cause.file == __file__
    assert cause.held_by[0] == "losses in test_a_local_variable_of_the_loop.script()"
    assert cause.type_name == "torch.Tensor scalar float32 with its graph"
    assert seen.is_complete
    assert isinstance(said[-1], wire.Finished)
    assert not tracemalloc.is_tracing()


@pytest.mark.slow
def test_a_worker_of_loaders_that_are_made_anew(growing: ModuleType) -> None:
    dataset = growing.Cache()
    loaders = []

    def script() -> None:
        while True:
            loaders[:] = [growing.make_loader(dataset, num_workers=1, persistent_workers=True)]
            for _ in range(200):
                for _ in loaders[0]:
                    pass

    spec = Causes(seconds=SECONDS, process="worker 0")
    seen, _ = inspected(spec, script, None, loaders)
    assert seen.process == "worker 0"
    assert seen.objects[0].held_by[0] == "dataset.cache"


@pytest.mark.slow
def test_settings_are_set_first(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Small())

    def script() -> None:
        while True:
            for _ in loader:
                pass

    spec = Causes(seconds=SECONDS, process="worker 0")
    settings = LoaderSettings(num_workers=1, prefetch_factor=2, persistent_workers=True)
    seen, _ = inspected(spec, script, settings, [loader])
    assert seen.objects[0].held_by[0] == "dataset.log"


def test_workers_of_one_short_epoch_are_kept_to_be_looked_into(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Small(), num_workers=1)

    def script() -> None:
        while True:
            for _ in loader:
                pass

    spec = Causes(seconds=SECONDS, process="worker 0")
    seen, _ = inspected(spec, script, None, [loader])
    assert seen.objects[0].held_by[0] == "dataset.log"
    assert seen.is_complete


def test_a_script_that_ends_early_says_what_was_seen(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Small())

    def script() -> None:
        for _ in range(3):
            for _ in loader:
                pass

    seen, said = inspected(Causes(seconds=60.0), script)
    assert not seen.is_complete
    assert seen.items > 0
    assert [type(each) for each in said].count(wire.Used) == 1


@pytest.mark.slow
def test_other_loaders_are_let_be(growing: ModuleType) -> None:
    first = growing.make_loader(growing.Plain())
    second = growing.make_loader(growing.Small())

    def script() -> None:
        while True:
            for _ in first:
                pass
            for _ in second:
                pass

    seen, said = inspected(Causes(seconds=SECONDS, loader=1), script)
    assert seen.objects[0].held_by[0] == "dataset.log"
    (used,) = (each for each in said if isinstance(each, wire.Used))
    assert used.training_loader == 1


def test_what_is_said_can_be_sent() -> None:
    caused = Caused(inspection=Inspection(process="main", growth=_growth()))
    assert msgspec.json.decode(msgspec.json.encode(caused), type=Caused) == caused


def _growth() -> Any:
    from feedrate.memory_records import GrowthCause

    return GrowthCause(process="main", grown=0)
