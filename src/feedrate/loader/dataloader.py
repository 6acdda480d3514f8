"""`feedrate.DataLoader`: torch's DataLoader with workers that can come and go."""

from __future__ import annotations

import os
import warnings
import weakref
from typing import Any, Literal, TypeVar

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset

from feedrate.loader.torch_private import missing_names

T_co = TypeVar("T_co", covariant=True)
OnWorkerDeath = Literal["raise", "replace"]


class DataLoader(TorchDataLoader[T_co]):
    """A DataLoader whose workers can be started, retired and replaced while it runs.

    Takes what `torch.utils.data.DataLoader` takes, and behaves like it: the same batches in the
    same order, the same seeds for each worker, the same errors and warnings.

    Args:
        on_worker_death: "raise", as torch does; or "replace": a worker that is killed or crashes
            is replaced and its unfinished batches are loaded again, in order. Only for datasets
            that are indexed: an IterableDataset's position dies with its worker.
    """

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        on_worker_death: OnWorkerDeath = "raise",
        **kwargs: Any,
    ) -> None:
        if on_worker_death not in ("raise", "replace"):
            raise ValueError(
                f'on_worker_death takes "raise" or "replace", and not {on_worker_death!r}'
            )
        self.on_worker_death = on_worker_death
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        super().__init__(dataset, *args, **kwargs)

    def _get_iterator(self) -> Any:
        if self.num_workers == 0 or not _is_supported(self.on_worker_death):
            return super()._get_iterator()
        from feedrate.loader.iterator import ElasticIterator

        self.check_worker_number_rationality()
        iterator = ElasticIterator(self)
        self._iterators.add(iterator)
        return iterator

    @property
    def active_workers(self) -> int:
        """How many workers there are, or will be in the next epoch."""
        return self.num_workers

    def grow(self, count: int = 1) -> None:
        """Start ``count`` workers more, now if an iteration is under way.

        Raises:
            ValueError: ``count`` is not positive, or the dataset is an IterableDataset.
        """
        self._check_elastic(count)
        for iterator in list(self._iterators):
            iterator.grow(count)
        self.num_workers += count

    def shrink(self, count: int = 1) -> None:
        """Let ``count`` workers go; each delivers what it holds first. One stays at least.

        Raises:
            ValueError: ``count`` is not positive, as many as there are, or the dataset is an
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


def _is_supported(mode: OnWorkerDeath) -> bool:
    missing = missing_names()
    if not missing and hasattr(os, "register_at_fork"):
        return True
    if mode != "raise":
        why = f"this torch has no {', '.join(missing)}" if missing else "this platform has no fork"
        warnings.warn(
            f"feedrate.DataLoader runs as torch's own here, since {why}: dead workers are not "
            "replaced",
            stacklevel=4,
        )
    return False
