"""The list of indices that a sampler makes before its first one, as long as the dataset."""

from __future__ import annotations

import gc
import sys
import types
from collections import deque
from collections.abc import Iterator

from feedrate.memory_records import IndexList

_MANY = 100_000
_MOST = 200
"""What gives indices is made of a few generators and iterators."""
_WEIGHED = 200
_ALIGNED = 16
"""Python gives out memory for small objects in multiples of this."""


def index_list(indices: object, loader: object = None) -> IndexList | None:
    """Return the longest list that gives indices, ``None`` where there is none worth a look.

    It is looked for in the generators and iterators that are run through and in what they hold.
    What the samplers of the ``loader`` have themselves was there before. Nothing is drawn.
    """
    before = _owned(loader)
    longest: list[object] | None = None
    waiting: deque[object] = deque([indices])
    seen = {id(indices)}
    while waiting and len(seen) < _MOST:
        for each in gc.get_referents(waiting.popleft()):
            if id(each) in seen:
                continue
            seen.add(id(each))
            if type(each) is list and id(each) not in before:
                longest = each if longest is None or len(each) > len(longest) else longest
            elif isinstance(each, Iterator | types.FrameType | tuple):
                waiting.append(each)
    if longest is None or len(longest) < _MANY:
        return None
    return IndexList(count=len(longest), list_bytes=_bytes_of(longest))


def _owned(loader: object) -> set[int]:
    """Return which objects the samplers of a loader are, or have as attributes."""
    samplers = [getattr(loader, name, None) for name in ("sampler", "batch_sampler")]
    samplers += [getattr(each, "sampler", None) for each in samplers]
    owned = {id(each) for each in samplers}
    for each in samplers:
        owned |= {id(value) for value in getattr(each, "__dict__", {}).values()}
    return owned


def _bytes_of(listed: list[object]) -> int:
    """Return what a list and its members take, by some of them."""
    some = listed[:: max(1, len(listed) // _WEIGHED)]
    sizes = [-(-sys.getsizeof(each) // _ALIGNED) * _ALIGNED for each in some]
    return sys.getsizeof(listed) + len(listed) * sum(sizes) // len(sizes)
