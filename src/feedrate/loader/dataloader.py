"""`feedrate.DataLoader`: torch's DataLoader with workers that can come and go."""

from __future__ import annotations

import math
import os
import warnings
import weakref
from typing import Any, Literal, TypeVar

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset

from feedrate.loader.levels import Decision
from feedrate.loader.pilot import MOST_WORKERS, Pilot
from feedrate.loader.statistics import LoaderStats, collect
from feedrate.loader.torch_private import missing_names
from feedrate.settings import LoaderSettings

T_co = TypeVar("T_co", covariant=True)
OnWorkerDeath = Literal["raise", "replace"]
Transport = Literal["arena", "torch"]


class DataLoader(TorchDataLoader[T_co]):
    """A DataLoader whose workers can be started, retired and replaced while it runs.

    Takes what `torch.utils.data.DataLoader` takes, in the same order, and with a number of workers
    behaves like it: the same batches in the same order, the same seeds for each worker, the same
    errors and warnings.

    Args:
        num_workers: a number as for torch, or "auto": it starts with one worker, measures wait and
            step while training goes on, and grows to the fewest workers that feed the loop as well
            as any number can. Workers are kept between epochs then, unless ``persistent_workers``
            says otherwise. An IterableDataset divides its items by the number of workers that it
            starts with, so it gets one worker for each usable CPU instead.
        on_worker_death: "raise" does as torch does (the default with a number); "replace" (the
            default with "auto"): a worker that is killed or crashes is replaced, and its
            unfinished batches are loaded again, in order. An IterableDataset's position dies with
            its worker, so there it raises in any case.
        max_workers: the most workers that "auto" may start.
        transport: how batches come from the workers. "arena": through memory that is mapped once
            and used again; not bounded by ``/dev/shm``. "torch": through a shared-memory file for
            every tensor, as torch does it.
    """

    transport: Transport
    on_worker_death: OnWorkerDeath
    pilot: Pilot | None
    seeds_each_epoch = False
    fills_late = False
    """What kept workers take not to be noticed; see `feedrate.loader.kept_workers`."""
    _iterators: weakref.WeakSet[Any]

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int | Literal["auto"] = 0,
        *args: Any,
        on_worker_death: OnWorkerDeath | None = None,
        max_workers: int = MOST_WORKERS,
        transport: Transport = "arena",
        **kwargs: Any,
    ) -> None:
        if max_workers < 1:
            raise ValueError(f"max_workers must be 1 or more, not {max_workers}")
        is_auto = isinstance(num_workers, str)
        if on_worker_death is None:
            on_worker_death = "replace" if is_auto else "raise"
        check_ways(transport, on_worker_death)
        self._become_elastic(transport, on_worker_death)
        if isinstance(num_workers, str):
            if num_workers != "auto":
                raise ValueError(f'num_workers takes a number or "auto", and not {num_workers!r}')
            num_workers = self._begin_auto(dataset, max_workers, kwargs)
        super().__init__(
            dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, *args, **kwargs
        )
        if num_workers and (why := obstacle()) is not None:
            count = f"num_workers='auto' is {num_workers}" if is_auto else "workers stay as many"
            lost = f"{count}, dead ones are not replaced, and batches travel as torch sends them"
            warnings.warn(
                f"feedrate.DataLoader runs as torch's own here, since {why}: {lost}",
                stacklevel=2,
            )

    def _become_elastic(self, transport: Transport, on_worker_death: OnWorkerDeath) -> None:
        """Set what this class adds to torch's; `feedrate.loader.adopt` does it to a made loader."""
        # not by setattr: the class of a loader that is adopted may guard it
        vars(self).update(
            transport=transport,
            on_worker_death=on_worker_death,
            pilot=None,
            _iterators=weakref.WeakSet(),
        )

    def _begin_auto(self, dataset: Any, most: int, kwargs: dict[str, Any]) -> int:
        """Return the number of workers to begin with."""
        kwargs.setdefault("persistent_workers", True)
        kwargs["prefetch_factor"] = prefetch = kwargs.get("prefetch_factor") or 2
        pilot = Pilot(most=most, prefetch=prefetch)
        if isinstance(dataset, IterableDataset):
            count = max(1, min(math.floor(pilot.cpus), most))
            pilot.note(
                Decision(
                    count,
                    prefetch,
                    "an IterableDataset divides its items by the number of workers it starts "
                    "with, so the number is fixed: one for each usable CPU",
                )
            )
            self._fixed_history = tuple(pilot.history)
            return count
        if obstacle() is None:
            self.pilot = pilot
            return 1
        return max(1, min(math.floor(pilot.cpus), most))

    _fixed_history: tuple[Decision, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process: a copy elsewhere begins anew."""
        state = dict(self.__dict__)
        state.pop("_latest", None)
        state.pop("_kept_stats", None)
        state["_iterators"] = None
        if self.pilot is not None:
            state["pilot"] = self.pilot.settings
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin anew, with the workers that there were."""
        self.__dict__.update(state)
        self.__dict__["_iterators"] = weakref.WeakSet()
        pilot = state.get("pilot")
        if pilot is not None:
            self.__dict__["pilot"] = Pilot(**pilot)
            self.__dict__["num_workers"] = 1

    def _get_iterator(self) -> Any:
        if self.num_workers == 0 or obstacle() is not None:
            return super()._get_iterator()
        from feedrate.loader.iterator import ElasticIterator

        if self.pilot is None:  # torch's advice is for people who chose the number
            self.check_worker_number_rationality()
        iterator = ElasticIterator(self)
        self._iterators.add(iterator)
        self._latest = weakref.ref(iterator)
        return iterator

    _latest: Any = staticmethod(lambda: None)

    def __repr__(self) -> str:
        """Return one line: what it loads, in which batches, by how many workers."""
        name = "feedrate.DataLoader" if type(self) is DataLoader else type(self).__qualname__
        batches = f"batch_size {self.batch_size}"
        if self.batch_size is None and self.batch_sampler is not None:
            batches = f"batches of {type(self.batch_sampler).__qualname__}"
        is_auto = self.pilot is not None or bool(self._fixed_history)
        workers = f"auto ({self.num_workers} now)" if is_auto else self.num_workers
        return (
            f"<{name} of {type(self.dataset).__qualname__}: {batches}, num_workers {workers}, "
            f"transport {self.transport}>"
        )

    @property
    def active_workers(self) -> int:
        """How many workers there are, or will be in the next epoch."""
        return self.num_workers

    @property
    def history(self) -> tuple[Decision, ...]:
        """What "auto" did and why, in order; empty with a number of workers."""
        return tuple(self.pilot.history) if self.pilot is not None else self._fixed_history

    @property
    def settings(self) -> LoaderSettings | None:
        """What to write into the code; ``None`` while "auto" is still looking."""
        if self.pilot is not None and not self.pilot.controller.settled:
            return None
        workers = self.num_workers
        return LoaderSettings(
            num_workers=workers,
            prefetch_factor=self.prefetch_factor if workers else None,
            persistent_workers=self.persistent_workers if workers else None,
            pin_memory=self.pin_memory,
        )

    def stats(self) -> LoaderStats:
        """Return waits, steps, queue depth, and figures of each worker, of the latest iteration."""
        iterator = self._latest()
        if iterator is None or iterator.has_ended:
            return self._kept_stats
        return collect(iterator)

    _kept_stats = LoaderStats()

    def keep_stats(self, iterator: Any) -> None:
        """Keep an iterator's figures, which ends; called by itself."""
        if iterator is self._latest():
            self._kept_stats = collect(iterator)

    def grow(self, count: int = 1) -> None:
        """Start ``count`` workers more, now if an iteration is under way.

        Raises:
            ValueError: ``count`` is not positive, there are no workers at all, or the dataset is
                an IterableDataset.
        """
        self._check_elastic(count)
        for iterator in list(self._iterators):
            iterator.grow(count)
        self.num_workers += count

    def shrink(self, count: int = 1) -> None:
        """Let ``count`` workers go; each delivers what it holds first. One stays at least.

        Raises:
            ValueError: ``count`` is not positive or as many as there are, or the dataset is an
                IterableDataset.
        """
        self._check_elastic(count)
        if count >= self.num_workers:
            raise ValueError(
                f"there are {self.num_workers} workers, and one has to stay: shrink by "
                f"{self.num_workers - 1} at most"
            )
        for iterator in list(self._iterators):
            iterator.shrink(count)
        self.num_workers -= count

    def _check_elastic(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"the number of workers must be 1 or more, not {count}")
        if isinstance(self.dataset, IterableDataset):
            raise ValueError(  # noqa: TRY004 - the type is right, the request is not
                "an IterableDataset divides its items by the number of workers it starts with: "
                "set num_workers before iterating"
            )
        if self.num_workers == 0:
            raise ValueError("there are no workers: set num_workers to 1 or more")


def check_ways(transport: str, on_worker_death: str) -> None:
    """Raise unless there are such a transport and such a way to take a worker's death.

    Raises:
        ValueError: one of them is unknown.
    """
    if on_worker_death not in ("raise", "replace"):
        raise ValueError(f'on_worker_death takes "raise" or "replace", and not {on_worker_death!r}')
    if transport not in ("arena", "torch"):
        raise ValueError(f'transport takes "arena" or "torch", and not {transport!r}')


def obstacle() -> str | None:
    """Return why workers cannot be elastic here, and torch's own are used; ``None`` if they can."""
    missing = missing_names()
    if missing:
        return f"this torch has no {', '.join(missing)}"
    return None if hasattr(os, "register_at_fork") else "this platform has no fork"
