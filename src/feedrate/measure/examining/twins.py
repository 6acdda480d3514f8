"""Copies of the user's loader with something changed: what trials iterate, so that it stays."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils.data import DataLoader

from feedrate.loader.torch_private import set_checked_attribute
from feedrate.measure.configure import configure
from feedrate.settings import LoaderSettings


def twin(loader: DataLoader[Any], **settings: Any) -> DataLoader[Any]:
    """Return a copy of a loader that was not iterated, with `LoaderSettings` where some are given.

    Dataset, sampler and functions are the user's own objects.
    """
    copied = copy.copy(loader)
    if settings:
        configure(copied, LoaderSettings(**settings))
    return copied


def with_workers(loader: DataLoader[Any], count: int) -> DataLoader[Any]:
    """Return a copy with another number of workers, else as it is."""
    kept = bool(loader.persistent_workers) if count else None
    return twin(loader, num_workers=count, persistent_workers=kept)


def replaced(loader: DataLoader[Any], **attributes: Any) -> DataLoader[Any]:
    """Return a copy with attributes that torch does not let change on a loader in use."""
    copied = copy.copy(loader)
    for name, value in attributes.items():
        set_checked_attribute(copied, name, value)
    return copied
