"""Which items to look at: a few of those that the loader's own sampler would ask for."""

from __future__ import annotations

import itertools
import random
from typing import Any

from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

_DRAWN = 512
_FIRST = 24


def is_plain(loader: DataLoader[Any]) -> bool:
    """Tell whether the indices are those from 0 to the dataset's length."""
    sampler = loader.sampler
    return type(sampler) in (SequentialSampler, RandomSampler) and _length(loader) is not None


def choose(loader: DataLoader[Any], most: int) -> list[Any]:
    """Return indices to read, each once: the first, the last, and some drawn from all.

    Of a sampler of the user's own, what it draws first: its indices may be anything.
    """
    length = _length(loader)
    if is_plain(loader) and length is not None:
        if length <= most:
            return list(range(length))
        first = min(_FIRST, most // 2)
        drawn = random.Random(0).sample(range(first, length - 1), most - first - 1)
        return [*range(first), length - 1, *drawn]
    source = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    found: dict[Any, None] = {}
    for entry in itertools.islice(source, _DRAWN):
        for index in [entry] if loader.batch_sampler is None else entry:
            try:
                found.setdefault(index, None)
            except TypeError:  # a list of indices, for a dataset that makes batches itself
                return list(itertools.islice(itertools.chain([entry], source), min(most, 32)))
            if len(found) >= most:
                return list(found)
    return list(found)


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader.dataset)  # type: ignore[arg-type]
    except Exception:
        return None
