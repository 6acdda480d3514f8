"""Real faults, found with their line, type and holder; harmless patterns, in which none is found.

The times are only bounds on how long the loops run: what is asserted are lines, types and names.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from feedrate.loader.torch_private import end_workers
from feedrate.measure.causes import looking, tracing
from feedrate.measure.causes.finding import find_causes, worker_items
from feedrate.measure.causes.in_worker import InspectingCollate, probe_worker
from feedrate.measure.causes.inspection import Inspection
from feedrate.measure.causes.lines import Lines
from feedrate.measure.causes.looking import Looker
from feedrate.measure.target import load_module
from feedrate.memory_records import Cause

GROWING = Path(__file__).parents[2] / "targets" / "growing.py"
SECONDS = 4.0
"""How long a pass may take. It ends after a quarter of it where it has seen enough."""
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def growing() -> ModuleType:
    return load_module(str(GROWING))


@pytest.fixture(autouse=True)
def forgotten(growing: ModuleType) -> Iterator[None]:
    yield
    growing.forget()
    gc.collect()


def line_of(name: str) -> int:
    lines = GROWING.read_text("utf-8").splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# makes {name}"))
    return found


def leading(found: Inspection) -> Cause:
    assert found.objects, f"nothing was found: {found}"
    return found.objects[0]


def assert_made_at(cause: Cause, name: str) -> None:
    assert (Path(cause.file or "").name, cause.line) == (GROWING.name, line_of(name))


DATASETS = [
    ("Cache", "cache", "numpy.ndarray 64 float32", "dataset.cache"),
    pytest.param(
        "TensorCache", "tensor_cache", "torch.Tensor 3×8×8 float32", "dataset.kept", marks=slow
    ),
    pytest.param("Small", "small", "bytes", "dataset.log", marks=slow),
    pytest.param("Registered", "registered", "dict", "growing.REGISTRY", marks=slow),
    pytest.param(
        "Cached", "decoded", "numpy.ndarray 64 float32", "lru_cache of decode()", marks=slow
    ),
    pytest.param("Stream", "stream", "str", "dataset.seen", marks=slow),
]


@pytest.mark.parametrize(("kind", "name", "type_name", "holder"), DATASETS)
def test_a_dataset_that_keeps_something(
    growing: ModuleType, kind: str, name: str, type_name: str, holder: str
) -> None:
    loader = growing.make_loader(getattr(growing, kind)())
    found = find_causes(loader, seconds=SECONDS)
    cause = leading(found)
    assert_made_at(cause, name)
    assert cause.type_name == type_name
    assert cause.held_by[0] == holder
    assert found.growth.traced > 0
    assert found.growth.line == cause.line
    # one of them for each item
    assert cause.count == pytest.approx(growing.ITEMS, rel=0.3)
    assert cause.bytes_per_epoch > 150 * growing.ITEMS


def test_a_cache_that_fills_is_told_with_its_limit_of_a_process_that_is_known_to_have_grown(
    growing: ModuleType,
) -> None:
    loader = growing.make_loader(growing.Limited())
    cause = leading(find_causes(loader, seconds=SECONDS, expected=16_384.0))
    assert_made_at(cause, "some")
    assert cause.held_by[0] == "lru_cache of decode_some()"
    assert cause.most == 4000


STEPS = [
    pytest.param(
        "keeps_batches", "batch", "torch.Tensor 8×8 float32", "growing.BATCHES", marks=slow
    ),
    ("keeps_losses", "loss", "torch.Tensor scalar float32 with its graph", "growing.HISTORY"),
    pytest.param(
        "make_callback",
        "callback",
        "list",
        "seen in the closure of make_callback.callback()",
        marks=slow,
    ),
]


@pytest.mark.parametrize(("step", "name", "type_name", "holder"), STEPS)
def test_a_step_that_keeps_something(
    growing: ModuleType, step: str, name: str, type_name: str, holder: str
) -> None:
    function = getattr(growing, step)
    if step.startswith("make_"):
        function = function()
    cause = leading(find_causes(growing.make_loader(growing.Plain()), function, seconds=SECONDS))
    assert_made_at(cause, name)
    assert cause.type_name == type_name
    assert cause.held_by[0] == holder
    assert cause.process == "main"
    batches = growing.ITEMS / 8
    assert cause.count >= 0.7 * batches
    if step == "keeps_losses":
        # of each batch the input, 8 × 8, and the output, 8 × 64, wait for a backward pass
        assert cause.bytes_per_epoch / cause.count >= (8 * 8 + 8 * 64) * 4


@slow
def test_a_sum_of_losses_is_a_graph_that_grows(growing: ModuleType) -> None:
    step = growing.Running()
    cause = leading(find_causes(growing.make_loader(growing.Plain()), step, seconds=SECONDS))
    assert_made_at(cause, "total")
    assert cause.type_name == "torch.Tensor scalar float32 whose graph grows"
    assert cause.held_by[0].endswith("total")


def test_a_graph_is_followed_beyond_what_a_look_counts_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "MOST_NODES", 200)
    started = tracing.start()
    looker = Looker(Lines())
    try:
        total = torch.zeros((), requires_grad=True)
        seen = []
        for _ in range(3):
            for _ in range(150):
                total = total + 1
            seen.append(looker.look(0).nodes)
    finally:
        looker.close()
        if started:
            tracing.stop()
    assert [after - before for before, after in pairwise(seen)] == [150, 150]


@slow
def test_reference_cycles_are_told_as_such(growing: ModuleType) -> None:
    threshold = gc.get_threshold()
    gc.set_threshold(10**9, 1000, 1000)  # it does not come by itself while this is watched
    try:
        found = find_causes(growing.make_loader(growing.Cyclic()), seconds=SECONDS)
    finally:
        gc.set_threshold(*threshold)
    cause = leading(found)
    assert_made_at(cause, "cycle")
    assert cause.held_by[0] == "reference cycle"
    assert {"Node.parent", "Node.children"} <= set(cause.held_by)
    assert found.growth.collected >= 0.5 * found.growth.traced > 0
    assert gc.garbage == []


@pytest.mark.parametrize(
    "kind",
    [
        "Bounded",
        pytest.param("Plain", marks=slow),
        pytest.param("Warming", marks=slow),
    ],
)
def test_a_harmless_dataset_gives_no_cause(growing: ModuleType, kind: str) -> None:
    loader = growing.make_loader(getattr(growing, kind)())
    found = find_causes(loader, seconds=SECONDS)
    assert found.objects == ()
    assert found.growth.traced == 0
    assert found.growth.file is None
    assert not tracemalloc.is_tracing()
    assert not [each for each in gc.callbacks if "feedrate" in getattr(each, "__module__", "")]
    assert gc.get_debug() == 0


@slow
def test_what_is_given_back_with_each_epoch_gives_no_cause(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Plain())
    step = growing.PerEpoch(len(loader))
    assert find_causes(loader, step, seconds=SECONDS).objects == ()


def test_an_error_of_the_step_ends_the_pass(growing: ModuleType) -> None:
    batches = []

    def step(batch: Any) -> None:
        batches.append(None)
        if len(batches) == 20:
            raise ValueError("it is mine")

    with pytest.raises(ValueError, match="it is mine"):
        find_causes(growing.make_loader(growing.Plain()), step, seconds=SECONDS)
    assert not tracemalloc.is_tracing()


def test_a_loader_without_batches_is_no_loop_without_end(growing: ModuleType) -> None:
    found = find_causes([], seconds=60.0)
    assert not found.is_complete
    assert found.objects == ()


WORKERS = [
    ("fork", True, "Cache", "cache", "dataset.cache"),
    pytest.param("fork", False, "Registered", "registered", "growing.REGISTRY", marks=slow),
    pytest.param("spawn", True, "Small", "small", "dataset.log", marks=slow),
]


@pytest.mark.parametrize(("method", "persistent", "kind", "name", "holder"), WORKERS)
def test_a_worker_inspects_itself(
    growing: ModuleType, method: str, persistent: bool, kind: str, name: str, holder: str
) -> None:
    dataset = getattr(growing, kind)()
    loader = growing.make_loader(
        dataset,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )
    if not persistent:
        loader = growing.make_loader(LongerThan(dataset), num_workers=2)
        holder = holder.replace("dataset.", "dataset.inner.")
    found = find_in_worker(loader, "worker 1")
    cause = leading(found)
    assert_made_at(cause, name)
    assert cause.process == "worker 1"
    assert cause.held_by[0] == holder
    assert found.growth.process == "worker"


class LongerThan:
    """The same items many times, for workers that live for one epoch."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return 40_000

    def __getitem__(self, index: int) -> Any:
        return self.inner[index % len(self.inner)]


def find_in_worker(loader: Any, process: str) -> Inspection:
    try:
        return find_causes(loader, process=process, seconds=SECONDS)
    finally:
        end_workers(getattr(loader, "_iterator", None))  # which the loader would keep


@slow
def test_a_harmless_worker_gives_no_cause(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Bounded(), num_workers=1, persistent_workers=True)
    found = find_in_worker(loader, "worker 0")
    assert found.objects == ()


def test_the_loader_gives_the_same_batches_and_is_left_as_it_was(growing: ModuleType) -> None:
    import torch

    loader = growing.make_loader(growing.Plain(), shuffle=True, num_workers=1)
    torch.manual_seed(3)
    before = torch.cat(list(loader))
    collate = loader.collate_fn
    with probe_worker(loader, seconds=10.0) as probe:
        assert isinstance(loader.collate_fn, InspectingCollate)
        torch.manual_seed(3)
        assert torch.equal(torch.cat(list(loader)), before)
        assert not probe.is_over
        assert probe.inspection().objects == ()
    assert loader.collate_fn is collate


def test_a_workers_share_of_the_items(growing: ModuleType) -> None:
    loader = growing.make_loader(growing.Plain(), num_workers=2)
    assert worker_items(loader) == growing.ITEMS / 2
    assert worker_items(growing.make_loader(growing.Stream(), num_workers=2)) is None
