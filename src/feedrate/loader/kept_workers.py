"""Workers that are kept between epochs of a loader whose program does not ask for it.

Starting workers anew costs time in each epoch, but torch's ``persistent_workers`` is more than that
time saved: one base seed is drawn instead of one for each epoch, so all that the program draws
after it is another; there is a single iterator, so two loops over the loader get in each other's
way; and workers keep the dataset as it was when they started. Here none of this shows, nor, where
the program has no workers, that the sampler is asked for the first batches before the loop is.
"""

from __future__ import annotations

import sys
from typing import Any

from feedrate.loader.dataset_state import state_of
from feedrate.loader.torch_private import (
    forget_iterator,
    kept_iterator,
    set_aside_iterator,
    set_checked_attribute,
)

_STATE = "_dataset_state"


def keep_workers(loader: Any) -> None:
    """Keep the workers of an elastic loader, which still has the program's own settings.

    `before_epoch` is to be called before each epoch from then on.
    """
    if loader.persistent_workers:
        return
    vars(loader).update(seeds_each_epoch=True, fills_late=loader.num_workers == 0)
    set_checked_attribute(loader, "persistent_workers", True)


def before_epoch(loader: Any) -> None:
    """See to it that an epoch that begins is as with workers that are started for it.

    Workers are started anew where the dataset was changed in this process since the last epoch, or
    where another loop still goes over the kept ones.
    """
    if not getattr(loader, "seeds_each_epoch", False):
        return
    state = state_of(loader.dataset, loader.collate_fn, loader.worker_init_fn)
    before, vars(loader)[_STATE] = vars(loader).get(_STATE), state
    iterator = kept_iterator(loader)
    if iterator is None:
        return
    if iterator.is_under_way and _references(iterator) > _KEPT_ALONE:
        set_aside_iterator(loader)
        iterator.steer_no_more()
    elif state != before:
        del iterator
        forget_iterator(loader)


def _references(thing: Any) -> int:
    return sys.getrefcount(thing)


class _Loader:
    """Stands in for a loader whose kept iterator nobody else has."""

    def __init__(self) -> None:
        self._iterator = _Iterator()


class _Iterator:
    pass


def _count_kept_alone() -> int:
    """Return the references of an iterator that only its loader has, seen as `before_epoch` does.

    How many a call itself adds differs between versions of Python.
    """
    loader: Any = _Loader()
    iterator = kept_iterator(loader)
    return _references(iterator)


_KEPT_ALONE = _count_kept_alone()
