"""Setting what a benchmark asks for on the target's own loader, and reading what it then has.

The loader is changed in place, before it is first iterated: dataset, sampler, collate function,
generator, worker_init_fn and whatever a subclass adds stay the user's own objects.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import msgspec
import torch
from torch.utils.data import BatchSampler, DataLoader

from feedrate.errors import TargetError
from feedrate.loader.adopt import adopt
from feedrate.loader.dataloader import DataLoader as ElasticLoader
from feedrate.loader.dataloader import obstacle
from feedrate.loader.torch_private import forget_iterator, set_checked_attribute
from feedrate.measure.batch import measure_size
from feedrate.measure.target import Target, is_iterable_dataset
from feedrate.records import LoaderFacts
from feedrate.settings import LoaderKind, LoaderSettings

TORCH_PREFETCH_FACTOR = 2
"""What torch uses with workers where nothing is given."""


def configure(loader: DataLoader[Any], settings: LoaderSettings) -> tuple[str, ...]:
    """Set the settings on a loader; return what of the loader's own could not stay, and why.

    Raises:
        TargetError: the batch size is to vary and the loader does not decide it; this torch has no
            ``in_order``; or the loader is to be another one and cannot.
    """
    left_out: list[str] = []
    if settings.loader is not None:
        _choose_loader(loader, settings.loader)
        if settings.loader == "feedrate" and (why := obstacle()):
            left_out.append(f"feedrate's loader: {why}, so torch's own workers are used")
    forget_iterator(loader)
    workers = settings.num_workers
    if workers == 0:
        if loader.multiprocessing_context is not None:
            left_out.append("multiprocessing_context: there are no workers to start")
            loader.multiprocessing_context = None
        if loader.persistent_workers:
            left_out.append("persistent_workers: there are no workers to keep")
        if loader.timeout > 0:
            left_out.append("timeout: torch allows it with workers only")
            loader.timeout = 0
    loader.num_workers = workers
    if workers == 0:
        loader.prefetch_factor = None
        set_checked_attribute(loader, "persistent_workers", False)
    else:
        loader.prefetch_factor = (
            settings.prefetch_factor or loader.prefetch_factor or TORCH_PREFETCH_FACTOR
        )
        if settings.persistent_workers is not None:
            set_checked_attribute(loader, "persistent_workers", settings.persistent_workers)
        if settings.start_method is not None:
            loader.multiprocessing_context = settings.start_method
    if settings.pin_memory is not None:
        loader.pin_memory = settings.pin_memory
    _change_training(loader, settings)
    return tuple(left_out)


def _change_training(loader: DataLoader[Any], settings: LoaderSettings) -> None:
    if settings.batch_size is not None:
        _set_batch_size(loader, settings.batch_size)
    if settings.in_order is not None:
        if not hasattr(loader, "in_order"):
            raise TargetError("in_order needs torch 2.6 or later; leave it out")
        set_checked_attribute(loader, "in_order", settings.in_order)
    if settings.main_threads is not None:
        torch.set_num_threads(settings.main_threads)


def _choose_loader(loader: DataLoader[Any], kind: LoaderKind) -> None:
    if kind == "feedrate":
        adopt(loader)
    elif isinstance(loader, ElasticLoader):
        raise TargetError(
            "torch's loader cannot be measured: the target's own is a feedrate.DataLoader; return "
            "a torch.utils.data.DataLoader, or ask for feedrate's only"
        )


def _set_batch_size(loader: DataLoader[Any], size: int) -> None:
    sampler = loader.batch_sampler
    if type(sampler) is not BatchSampler or loader.batch_size is None:
        raise TargetError(
            "batch_size (--batch-size) cannot be varied: the loader has none of its own "
            "(batch_sampler or batch_size=None decides); leave it out"
        )
    sampler.batch_size = size
    set_checked_attribute(loader, "batch_size", size)


def read_facts(target: Target, left_out: tuple[str, ...]) -> LoaderFacts:
    """Return what a loader is and has, without iterating it."""
    loader = target.loader
    dataset_length = _length(loader.dataset)
    return LoaderFacts(
        loader_type=_loader_name(loader),
        dataset_type=_type_name(loader.dataset),
        dataset_length=dataset_length,
        iterable=is_iterable_dataset(loader),
        length=_announced_batches(loader, dataset_length),
        batch_size=loader.batch_size,
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor,
        pin_memory=bool(loader.pin_memory),
        persistent_workers=bool(loader.persistent_workers),
        start_method=_start_method(loader),
        has_step=target.step is not None,
        left_out=left_out,
        in_order=getattr(loader, "in_order", None),
        main_threads=torch.get_num_threads(),
        loader=_whose(loader),
    )


def add_batch(facts: LoaderFacts, batch: Any) -> LoaderFacts:
    """Return the facts with the size of a batch."""
    size, count = measure_size(batch)
    return msgspec.structs.replace(facts, batch_bytes=size, batch_tensors=count)


def default_start_method() -> str:
    """Return the method by which workers start where none is set, without fixing it."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or multiprocessing.get_all_start_methods()[0]


def _start_method(loader: DataLoader[Any]) -> str | None:
    if loader.num_workers == 0:
        return None
    context = loader.multiprocessing_context
    if context is None:
        return default_start_method()
    return str(context.get_start_method())


def _announced_batches(loader: DataLoader[Any], dataset_length: int | None) -> int | None:
    """Return ``len(loader)``; of an IterableDataset's without the call, which torch remembers.

    Once asked, torch warns at every batch beyond that length, and workers that do not share the
    items out among them deliver more.
    """
    if not is_iterable_dataset(loader) or type(loader).__len__ is not DataLoader.__len__:
        return _length(loader)
    if dataset_length is None or loader.batch_size is None:
        return dataset_length
    full, rest = divmod(dataset_length, loader.batch_size)
    return full + (rest > 0 and not loader.drop_last)


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:  # torch may never ask; where it does, it meets the error again
        return None


def _whose(loader: DataLoader[Any]) -> LoaderKind | None:
    """Return whose workers will fetch, ``None`` where the main process does."""
    if loader.num_workers == 0:
        return None
    return "feedrate" if isinstance(loader, ElasticLoader) and obstacle() is None else "torch"


def _loader_name(loader: DataLoader[Any]) -> str:
    """Return the type's name; of a class of the user's on feedrate's loader, both."""
    name, ours = _type_name(loader), f"feedrate.{ElasticLoader.__qualname__}"
    return f"{name} on {ours}" if isinstance(loader, ElasticLoader) and name != ours else name


def _type_name(value: Any) -> str:
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__", "__mp_main__"):
        return kind.__qualname__
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
