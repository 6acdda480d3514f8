"""The names of torch that are not public, all in this one file.

Each is looked up on the installed torch and has a fallback; nothing else in feedrate may lean on
a name of torch's that begins with an underscore. Seen in torch 2.4 to 2.14. What the elastic
loader needs is checked by `missing_names`; where one is missing, torch's own loader is used.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils, dataloader
from torch.utils.data._utils import pin_memory, worker

if TYPE_CHECKING:
    from types import TracebackType

    from torch.utils.data import DataLoader


def forget_iterator(loader: DataLoader[Any]) -> None:
    """Drop the iterator that a loader with persistent workers keeps for its next epoch.

    A factory may have looked at a batch already; workers of the old settings must not be used on.
    """
    iterator = getattr(loader, "_iterator", None)
    if iterator is not None:
        object.__setattr__(loader, "_iterator", None)
        if hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()  # the factory may still hold it


def kept_iterator(loader: Any) -> Any:
    """Return the iterator that a loader with persistent workers keeps, ``None`` if it has none."""
    return getattr(loader, "_iterator", None)


def set_aside_iterator(loader: DataLoader[Any]) -> None:
    """Let a loader make another iterator for its next epoch; whoever holds the old one goes on."""
    object.__setattr__(loader, "_iterator", None)


def draw_base_seed(generator: torch.Generator | None) -> None:
    """Draw what torch's iterators draw when they are made, and leave it unused."""
    torch.empty((), dtype=torch.int64).random_(generator=generator)


def set_checked_attribute(loader: DataLoader[Any], name: str, value: object) -> None:
    """Set an attribute that torch guards against changes once a loader is made.

    The guard protects loaders whose workers may be running; ours has not been iterated.
    """
    object.__setattr__(loader, name, value)


def end_workers(iterator: object) -> None:
    """End the workers of an iterator that is not asked again; do nothing where it has none."""
    end = getattr(iterator, "_shutdown_workers", None)
    if end is not None:
        end()


def worker_pids(iterator: object) -> tuple[int, ...] | None:
    """Return the pids of an iterator's workers, none without workers; ``None`` if not known."""
    workers = getattr(iterator, "_workers", None)
    if workers is None:
        single = getattr(dataloader, "_SingleProcessDataLoaderIter", None)
        return () if single is not None and isinstance(iterator, single) else None
    pids = (getattr(each, "pid", None) for each in workers)
    return tuple(pid for pid in pids if isinstance(pid, int))


def index_iterator(iterator: object) -> object:
    """Return what gives an iterator its indices, ``None`` where that is not known."""
    return getattr(iterator, "_sampler_iter", None)


def changes_of(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was changed in place, ``None`` where torch does not count."""
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):  # an inference tensor has no count
        return None


def worker_exit_codes(trace: TracebackType | None, patience: float = 0.0) -> tuple[int, ...]:
    """Return the exit codes of the ended workers of an iterator that an exception came through.

    torch's message often says no more than that a worker "exited unexpectedly". A negative code
    is a signal, as in `multiprocessing`. Empty where no such iterator is on the way.
    """
    while trace is not None:
        workers = getattr(trace.tb_frame.f_locals.get("self"), "_workers", None)
        if isinstance(workers, list) and workers:
            with contextlib.suppress(AttributeError, OSError, ValueError, AssertionError):
                ended = wait([worker.sentinel for worker in workers], patience)
                for worker in workers:
                    if worker.sentinel in ended:
                        worker.join(patience)  # its pipe closes before its exit code is there
            codes = [getattr(worker, "exitcode", None) for worker in workers]
            return tuple(code for code in codes if isinstance(code, int) and code != 0)
        trace = trace.tb_next
    return ()


BaseIterator: Any = getattr(dataloader, "_BaseDataLoaderIter", object)
MultiProcessingIterator: Any = getattr(dataloader, "_MultiProcessingDataLoaderIter", object)

_LOOP_ARGUMENTS = {
    "dataset_kind",
    "dataset",
    "dataset_holder",
    "index_queue",
    "data_queue",
    "done_event",
    "auto_collation",
    "collate_fn",
    "drop_last",
    "base_seed",
    "init_fn",
    "worker_id",
    "num_workers",
    "persistent_workers",
    "shared_seed",
}
"""What feedrate can give torch's worker loop, by the names of its parameters."""

_ITERATOR_NAMES = (
    "_dataset",
    "_shared_seed",
    "_dataset_kind",
    "_auto_collation",
    "_collate_fn",
    "_drop_last",
    "_base_seed",
    "_timeout",
    "_persistent_workers",
    "_pin_memory",
    "_pin_memory_device",
)
"""What the base of torch's iterators sets, and the elastic one reads."""


@functools.cache
def missing_names() -> tuple[str, ...]:
    """Return what of torch's private names the elastic loader needs and cannot find."""
    missing = []
    for module, name in (
        (dataloader, "_BaseDataLoaderIter"),
        (dataloader, "_MultiProcessingDataLoaderIter"),
        (worker, "_worker_loop"),
        (worker, "_ResumeIteration"),
        (worker, "_IterableDatasetStopIteration"),
        (pin_memory, "pin_memory"),
    ):
        if module is None or not hasattr(module, name):
            missing.append(name)
    if not missing:
        unknown = [
            parameter.name
            for parameter in inspect.signature(worker._worker_loop).parameters.values()
            if parameter.default is parameter.empty and parameter.name not in _LOOP_ARGUMENTS
        ]
        missing += [f"_worker_loop({name})" for name in unknown]
        source = inspect.getsource(dataloader._BaseDataLoaderIter.__init__)
        missing += [name for name in _ITERATOR_NAMES if f"self.{name} =" not in source]
    return tuple(missing)


def run_worker_loop(dataset: Any, arguments: dict[str, Any]) -> None:
    """Run torch's own worker loop, in a worker, with what it asks for by name.

    torch 2.14 takes the dataset in a list, so that the process object does not keep it.
    """
    given = arguments | {"dataset": dataset, "dataset_holder": [dataset]}
    wanted = inspect.signature(worker._worker_loop).parameters
    worker._worker_loop(**{name: given[name] for name in wanted if name in given})


def is_resume(value: object) -> bool:
    """Tell whether a message says that a worker is ready for another epoch."""
    return isinstance(value, worker._ResumeIteration)


def make_resume(shared_seed: int | None) -> Any:
    """Return the message that asks a worker to be ready for another epoch."""
    return worker._ResumeIteration(shared_seed)


def exhausted_worker(value: object) -> int | None:
    """Return the worker whose iterable has come to its end, ``None`` for any other data."""
    if isinstance(value, worker._IterableDatasetStopIteration):
        return int(value.worker_id)
    return None


def wrap_exception(where: str) -> ExceptionWrapper:
    """Return the exception that is being handled in the form in which torch sends it."""
    return ExceptionWrapper(where=where)  # type: ignore[no-untyped-call]


def reraise(data: object) -> None:
    """Raise the exception that came in a batch's place, as torch raises it; else do nothing."""
    if isinstance(data, ExceptionWrapper):
        data.reraise()  # type: ignore[no-untyped-call]


def is_map_style(iterator: Any) -> bool:
    """Tell whether an iterator's dataset is indexed."""
    return bool(iterator._dataset_kind == dataloader._DatasetKind.Map)


def interpreter_ends() -> bool:
    """Tell whether Python is shutting down, when torch's iterators leave everything as it is."""
    return getattr(_utils, "python_exit_status", None) in (True, None)


def loop_arguments(iterator: Any, loader: Any) -> dict[str, Any]:
    """Return what every worker's loop is given, as torch's iterator gives it.

    DataPipes are sharded before the user's own worker_init_fn.
    """
    init = loader.worker_init_fn
    pipes = tuple(
        kind
        for kind in (getattr(dataloader, name, None) for name in ("IterDataPipe", "MapDataPipe"))
        if kind is not None
    )
    sharding = getattr(dataloader, "_sharding_worker_init_fn", None)
    if sharding is not None and isinstance(iterator._dataset, pipes):
        init = functools.partial(sharding, init, iterator._world_size, iterator._rank)
    return {
        "dataset_kind": iterator._dataset_kind,
        "auto_collation": iterator._auto_collation,
        "collate_fn": iterator._collate_fn,
        "drop_last": iterator._drop_last,
        "base_seed": iterator._base_seed,
        "init_fn": init,
        "persistent_workers": iterator._persistent_workers,
        "shared_seed": iterator._shared_seed,
    }


def device_chooser(device: str | None) -> Callable[[], None]:
    """Return what makes a thread use the device that this one uses."""
    module = getattr(torch, device or "", None)
    if module is None or not hasattr(module, "current_device") or not module.is_available():
        return lambda: None
    index = module.current_device()
    return lambda: module.set_device(index)


def pin(data: Any, device: str | None) -> Any:
    """Copy a batch into pinned memory as torch does it."""
    return pin_memory.pin_memory(data, device)  # type: ignore[no-untyped-call]


def can_use_cuda() -> bool:
    """Tell whether this process and thread may use CUDA now.

    Not in a process that was forked from one that used it, nor while this thread's work is
    recorded as a graph.
    """
    forked = getattr(torch.cuda, "_is_in_bad_fork", None)
    return (
        forked is not None
        and torch.cuda.is_available()
        and not forked()
        and not interpreter_ends()
        and not torch.cuda.is_current_stream_capturing()
    )


def keep_cuda_busy(cycles: int) -> bool:
    """Give the current stream work that takes so many clock cycles; False where torch cannot."""
    sleep = getattr(torch.cuda, "_sleep", None)
    if sleep is None:
        return False
    sleep(cycles)
    return True
