"""A configured loader gives what a freshly made one with these arguments would give."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    get_worker_info,
)

import feedrate
from feedrate.errors import TargetError
from feedrate.measure.configure import add_batch, configure, default_start_method, read_facts
from feedrate.measure.target import Target
from feedrate.records import LoaderFacts
from feedrate.settings import LoaderSettings

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

LENGTH = 22
SEED = 7


class Noisy(Dataset):  # type: ignore[type-arg]
    """Items with randomness in them, as augmentation has."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, torch.rand(()).item()


class Stream(IterableDataset):  # type: ignore[type-arg]
    """Shared out among the workers."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, LENGTH, step))

    def __len__(self) -> int:
        return LENGTH


class Batching(IterableDataset):  # type: ignore[type-arg]
    """Makes its own batches."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(LENGTH).split(4))


class Twice(DataLoader):  # type: ignore[type-arg]
    """A subclass with a way of its own to iterate, and an argument of its own."""

    def __init__(self, *arguments: Any, times: int = 2, **named: Any) -> None:
        self.times = times
        super().__init__(*arguments, **named)

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            for _ in range(self.times):
                yield batch


def collate(rows: list[Any]) -> list[Any]:
    return [rows, "collated"]


def init_worker(worker_id: int) -> None:
    torch.rand(worker_id + 1)  # moves the generator on, so that it can be seen


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)


Make = Callable[..., DataLoader[Any]]


def plain(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Noisy(), **({"batch_size": 4, "generator": generator()} | settings))


def shuffled(**settings: Any) -> DataLoader[Any]:
    return plain(
        shuffle=True,
        drop_last=True,
        collate_fn=collate,
        worker_init_fn=init_worker,
        **settings,
    )


def sampled(**settings: Any) -> DataLoader[Any]:
    weights = [1.0] * LENGTH
    return plain(sampler=WeightedRandomSampler(weights, 17, generator=generator()), **settings)


def batch_sampled(**settings: Any) -> DataLoader[Any]:
    inner = RandomSampler(range(LENGTH), generator=generator())
    return DataLoader(
        Noisy(), batch_sampler=BatchSampler(inner, 5, False), generator=generator(), **settings
    )


def uncollated(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Noisy(), batch_size=None, generator=generator(), **settings)


def streamed(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Stream(), **({"batch_size": 4, "generator": generator()} | settings))


def batching(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Batching(), batch_size=None, generator=generator(), **settings)


def subclassed(**settings: Any) -> DataLoader[Any]:
    return Twice(Noisy(), times=3, **({"batch_size": 4, "generator": generator()} | settings))


MAKERS = [
    plain,
    shuffled,
    sampled,
    batch_sampled,
    uncollated,
    streamed,
    batching,
    subclassed,
]
USERS = [
    {},
    {"num_workers": 1, "prefetch_factor": 4, "persistent_workers": True, "timeout": 60},
]


def arguments(user: dict[str, Any], settings: LoaderSettings) -> dict[str, Any]:
    """Return what one would write by hand to get the user's loader with other settings."""
    named = dict(user) | {"num_workers": settings.num_workers}
    for name in ("prefetch_factor", "pin_memory", "persistent_workers", "batch_size"):
        if (value := getattr(settings, name)) is not None:
            named[name] = value
    if settings.start_method is not None:
        named["multiprocessing_context"] = settings.start_method
    if settings.num_workers == 0:
        for name in (
            "prefetch_factor",
            "persistent_workers",
            "timeout",
            "multiprocessing_context",
        ):
            named.pop(name, None)
    return named


def batches(loader: DataLoader[Any]) -> list[list[str]]:
    torch.manual_seed(SEED)  # for items that the main process makes
    # Only workers that stay can bring something over from one epoch into the next.
    epochs = 2 if loader.persistent_workers or loader.num_workers == 0 else 1
    return [[repr(batch) for batch in loader] for _ in range(epochs)]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("user", USERS, ids=["from none", "from one"])
@pytest.mark.parametrize(
    "settings",
    [
        LoaderSettings(num_workers=0),
        LoaderSettings(num_workers=2, prefetch_factor=1),
        LoaderSettings(num_workers=1, persistent_workers=True, pin_memory=True),
    ],
    ids=["0", "2", "1 persistent, pinned"],
)
def test_the_batches_are_those_of_a_fresh_loader(
    make: Make, user: dict[str, Any], settings: LoaderSettings
):
    loader = make(**user)
    configure(loader, settings)
    fresh = make(**arguments(user, settings))
    assert batches(loader) == batches(fresh)


@pytest.mark.parametrize("make", [plain, shuffled, sampled, streamed, subclassed])
@pytest.mark.parametrize("workers", [0, 2])
def test_another_batch_size_gives_the_batches_of_a_fresh_loader(make: Make, workers: int):
    settings = LoaderSettings(num_workers=workers, batch_size=6)
    loader = make()
    configure(loader, settings)
    fresh = make(**arguments({}, settings))
    assert len(loader) == len(fresh)
    assert loader.batch_size == fresh.batch_size
    assert batches(loader) == batches(fresh)


@pytest.mark.parametrize("make", [batch_sampled, uncollated, batching])
def test_a_batch_size_that_the_loader_does_not_decide_cannot_be_varied(make: Make):
    with pytest.raises(TargetError, match=r"--batch-size\) cannot be varied.*leave it out"):
        configure(make(), LoaderSettings(num_workers=0, batch_size=6))


def test_a_batch_sampler_of_the_users_own_class_keeps_its_size():
    class Grouped(BatchSampler):
        pass

    sampler = Grouped(SequentialSampler(range(LENGTH)), 4, drop_last=False)
    loader = DataLoader(Noisy(), batch_sampler=sampler)
    with pytest.raises(TargetError, match="cannot be varied"):
        configure(loader, LoaderSettings(num_workers=0, batch_size=6))
    assert sampler.batch_size == 4


def test_a_start_method_is_set_and_the_users_own_is_kept():
    loader = plain(num_workers=1, multiprocessing_context="spawn")
    configure(loader, LoaderSettings(num_workers=2))
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    configure(loader, LoaderSettings(num_workers=2, start_method="fork"))
    assert loader.multiprocessing_context.get_start_method() == "fork"
    fresh = plain(num_workers=2, multiprocessing_context="fork")
    assert batches(loader) == batches(fresh)


def test_what_needs_workers_is_left_out_without_them_and_named():
    loader = plain(
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=True,
        timeout=60,
        prefetch_factor=4,
    )
    left_out = configure(loader, LoaderSettings(num_workers=0))
    assert [text.partition(":")[0] for text in left_out] == [
        "multiprocessing_context",
        "persistent_workers",
        "timeout",
    ]
    assert loader.multiprocessing_context is None
    assert (loader.timeout, loader.prefetch_factor, loader.persistent_workers) == (0, None, False)
    assert configure(plain(), LoaderSettings(num_workers=0)) == ()


def test_what_is_not_named_stays_the_users_own():
    context = multiprocessing.get_context("fork")
    own: dict[str, Any] = {
        "generator": generator(),
        "worker_init_fn": init_worker,
        "collate_fn": collate,
        "multiprocessing_context": context,
    }
    dataset, sampler = Noisy(), RandomSampler(range(LENGTH))
    loader = DataLoader(
        dataset,
        batch_size=4,
        sampler=sampler,
        drop_last=True,
        num_workers=1,
        prefetch_factor=5,
        timeout=30,
        pin_memory=True,
        persistent_workers=True,
        **own,
    )
    batch_sampler = loader.batch_sampler
    assert configure(loader, LoaderSettings(num_workers=2)) == ()
    assert {name: getattr(loader, name) for name in own} == own
    assert loader.generator is own["generator"]
    assert loader.dataset is dataset
    assert loader.sampler is sampler
    assert loader.batch_sampler is batch_sampler
    kept = ("prefetch_factor", "timeout", "pin_memory", "persistent_workers", "drop_last")
    assert [getattr(loader, name) for name in kept] == [5, 30, True, True, True]


def test_what_is_named_is_set():
    loader = plain(num_workers=1, prefetch_factor=5, pin_memory=True, persistent_workers=True)
    configure(
        loader,
        LoaderSettings(
            num_workers=2, prefetch_factor=3, pin_memory=False, persistent_workers=False
        ),
    )
    assert (loader.num_workers, loader.prefetch_factor) == (2, 3)
    assert (loader.pin_memory, loader.persistent_workers) == (False, False)


def test_workers_prefetch_as_many_batches_as_torchs_own_default():
    loader = plain()
    configure(loader, LoaderSettings(num_workers=2))
    assert loader.prefetch_factor == plain(num_workers=2).prefetch_factor


def test_the_order_of_delivery_is_kept():
    if not hasattr(plain(), "in_order"):
        pytest.skip("this torch has no in_order")
    loader = plain(num_workers=2, in_order=False)
    configure(loader, LoaderSettings(num_workers=1))
    assert loader.in_order is False
    assert batches(loader) == batches(plain(num_workers=1, in_order=False))


def test_the_order_of_delivery_can_be_given_up():
    if not hasattr(plain(), "in_order"):
        pytest.skip("this torch has no in_order")
    loader = plain()
    configure(loader, LoaderSettings(num_workers=1, in_order=False))
    assert loader.in_order is False
    assert read_facts(Target(loader, None), ()).in_order is False
    assert batches(loader) == batches(plain(num_workers=1, in_order=False))


def test_the_threads_of_the_main_process_are_set():
    threads = torch.get_num_threads()
    try:
        configure(plain(), LoaderSettings(num_workers=0, main_threads=1))
        assert torch.get_num_threads() == 1
        assert read_facts(Target(plain(), None), ()).main_threads == 1
    finally:
        torch.set_num_threads(threads)


def test_a_torch_that_always_keeps_the_order_is_told():
    loader = plain()
    vars(loader).pop("in_order", None)
    assert read_facts(Target(loader, None), ()).in_order is None
    with pytest.raises(TargetError, match=r"torch 2\.6"):
        configure(loader, LoaderSettings(num_workers=1, in_order=False))


@pytest.mark.parametrize("workers", [0, 1])
def test_workers_of_a_loader_that_was_iterated_already_are_gone(workers: int):
    others = set(psutil.Process().children())  # a fork server of other tests, say
    loader = plain(num_workers=2, persistent_workers=True)
    next(iter(loader))
    old = set(psutil.Process().children()) - others
    assert len(old) >= 2
    configure(loader, LoaderSettings(num_workers=workers))
    assert not any(process.is_running() for process in old)
    loader.generator.manual_seed(SEED)
    settings = LoaderSettings(num_workers=workers)
    fresh = plain(**arguments({"persistent_workers": True}, settings))
    assert batches(loader) == batches(fresh)


def test_a_loader_can_be_configured_again_and_again():
    loader = plain()
    for workers in (2, 0, 1, 0):
        configure(loader, LoaderSettings(num_workers=workers))
        loader.generator.manual_seed(SEED)
        assert batches(loader) == batches(plain(num_workers=workers))


def facts(loader: DataLoader[Any], step: Any = None) -> LoaderFacts:
    return read_facts(Target(loader, step), ("left out",))


def test_facts_are_read_off_the_loader():
    loader = shuffled(num_workers=2, multiprocessing_context="spawn")
    seen = facts(loader, print)
    assert seen == LoaderFacts(
        loader_type="torch.DataLoader",
        dataset_type="test_configure.Noisy",
        dataset_length=LENGTH,
        iterable=False,
        length=LENGTH // 4,
        batch_size=4,
        num_workers=2,
        prefetch_factor=2,
        pin_memory=False,
        persistent_workers=False,
        start_method="spawn",
        has_step=True,
        left_out=("left out",),
        in_order=getattr(loader, "in_order", None),
        main_threads=torch.get_num_threads(),
        loader="torch",
    )
    batch = add_batch(seen, (torch.zeros(4, 3), torch.zeros(4)))
    assert (batch.batch_bytes, batch.batch_tensors) == (64, 2)
    assert batch.loader_type == seen.loader_type


@pytest.mark.parametrize(
    ("make", "settings"),
    [(make, {}) for make in MAKERS]
    + [(make, {"batch_size": 5}) for make in (plain, shuffled, streamed, subclassed)]
    + [(make, {"batch_size": 5, "drop_last": True}) for make in (plain, streamed, subclassed)],
)
def test_the_length_is_what_len_says(make: Make, settings: dict[str, Any]):
    loader = make(**settings)
    told = facts(loader).length
    try:
        assert told == len(loader)
    except TypeError:
        assert told is None


class Repeats(Stream):
    """Does not share out: every worker delivers all of it, as many people's do by mistake."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(LENGTH))


def test_reading_facts_makes_torch_warn_of_nothing():
    loader = DataLoader(Repeats(), batch_size=None, num_workers=2)
    assert facts(loader).length == LENGTH
    assert sum(1 for _ in loader) == 2 * LENGTH
    assert len(loader) == LENGTH
    with pytest.warns(UserWarning, match="Length of IterableDataset"):
        assert sum(1 for _ in loader) == 2 * LENGTH  # as it would have been, had len() been asked


class OddLength(Noisy):
    def __len__(self) -> int:
        raise RuntimeError("the index is not loaded")


def test_a_length_that_cannot_be_asked_for_is_none():
    seen = facts(DataLoader(OddLength(), sampler=range(3)))
    assert (seen.dataset_length, seen.length) == (None, 3)
    assert facts(DataLoader(Batching(), batch_size=None)).length is None


def test_names_of_types_are_short():
    subset = DataLoader(Subset(Noisy(), [1, 2]))  # type: ignore[arg-type]
    assert facts(subset).dataset_type == "torch.Subset"
    assert facts(DataLoader([1, 2])).dataset_type == "list"  # type: ignore[arg-type]


def test_the_start_method_is_told_and_not_fixed(monkeypatch: pytest.MonkeyPatch):
    assert facts(plain()).start_method is None
    told = facts(plain(num_workers=1)).start_method
    assert told == default_start_method() == multiprocessing.get_all_start_methods()[0]
    assert multiprocessing.get_start_method(allow_none=True) in (None, told)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "spawn")
    assert default_start_method() == "spawn"


@pytest.mark.parametrize("make", MAKERS)
def test_feedrates_loader_gives_the_batches_of_a_fresh_loader(make: Make):
    settings = LoaderSettings(num_workers=2, prefetch_factor=1, loader="feedrate")
    loader = make(num_workers=1, persistent_workers=True)
    assert configure(loader, settings) == ()
    assert isinstance(loader, feedrate.DataLoader)
    fresh = make(num_workers=2, prefetch_factor=1, persistent_workers=True)
    assert batches(loader) == batches(fresh)


def test_facts_say_whose_loader_it_was():
    def seen(loader: DataLoader[Any], kind: Any, workers: int = 1) -> tuple[str, str | None]:
        configure(loader, LoaderSettings(num_workers=workers, loader=kind))
        read = read_facts(Target(loader, None), ())
        return read.loader_type, read.loader

    assert seen(plain(), "feedrate") == ("feedrate.DataLoader", "feedrate")
    assert seen(plain(), "torch") == ("torch.DataLoader", "torch")
    assert seen(plain(), None) == ("torch.DataLoader", "torch")
    assert seen(plain(), None, workers=0) == ("torch.DataLoader", None)
    own = f"{__name__}.Twice"
    assert seen(subclassed(), "torch") == (own, "torch")
    assert seen(subclassed(), "feedrate") == (f"{own} on feedrate.DataLoader", "feedrate")
    ours = feedrate.DataLoader(Noisy())
    assert seen(ours, None) == ("feedrate.DataLoader", "feedrate")


def test_where_workers_cannot_be_elastic_facts_say_that_they_are_torchs(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("feedrate.loader.dataloader.missing_names", lambda: ("_worker_loop",))
    loader = plain()
    left_out = configure(loader, LoaderSettings(num_workers=1, loader="feedrate"))
    assert left_out == (
        "feedrate's loader: this torch has no _worker_loop, so torch's own workers are used",
    )
    assert read_facts(Target(loader, None), left_out).loader == "torch"


def test_a_loader_that_is_feedrates_own_is_not_measured_as_torchs():
    loader = feedrate.DataLoader(Noisy(), batch_size=4)
    with pytest.raises(TargetError, match=r"torch's loader cannot be measured.*is a feedrate\.Da"):
        configure(loader, LoaderSettings(num_workers=1, loader="torch"))


def test_loaders_are_told_apart_only_with_workers():
    with pytest.raises(ValueError, match="loader needs num_workers of 1 or more; leave it out"):
        LoaderSettings(num_workers=0, loader="feedrate")
