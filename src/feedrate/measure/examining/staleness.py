"""Whether kept workers see what the main process changes in the dataset between epochs."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, get_worker_info

from feedrate.measure.examined import Stale
from feedrate.measure.examining.digests import UNKNOWN, digest
from feedrate.measure.examining.twins import replaced
from feedrate.measure.examining.walking import attributes

_METHOD = "set_epoch"
_EPOCHS = (1, 2)
"""Two, for it may stand at one of them; small, for it may have something for each."""
_MOST_BATCHES = 16
_SHORT, _LITTLE = 64, 64 << 10


class _Attributes:
    """A collate function that tells the digests of the attributes of the worker's own dataset."""

    def __call__(self, _: Any) -> dict[str, str]:
        info = get_worker_info()
        return digests_of(info.dataset) if info is not None else {}


def digests_of(dataset: Any) -> dict[str, str]:
    """Return digests of an object's own attributes, of those that are small and can be compared."""
    small = {name: value for name, value in attributes(dataset).items() if _is_small(value)}
    found = {name: digest(value) for name, value in small.items()}
    return {name: each for name, each in found.items() if each != UNKNOWN}


def try_set_epoch(loader: DataLoader[Any]) -> Stale | None:
    """Call the dataset's own ``set_epoch`` between two epochs of kept workers.

    ``None`` where it has none, or where that changes no attribute.
    """
    dataset: Any = loader.dataset
    if not callable(getattr(dataset, _METHOD, None)):
        return None
    twin = replaced(
        loader, batch_sampler=[[0]] * _MOST_BATCHES, batch_size=None, drop_last=False, timeout=0
    )
    twin.collate_fn = _Attributes()
    for _ in twin:
        pass
    before = digests_of(dataset)
    changed: tuple[str, ...] = ()
    for epoch in _EPOCHS:
        if not changed:
            dataset.set_epoch(epoch)
            after = digests_of(dataset)
            changed = tuple(name for name in after if after[name] != before.get(name))
    if not changed:
        return None
    seen = [each for each in twin if each]
    unseen = tuple(
        name for name in changed if any(each.get(name, after[name]) != after[name] for each in seen)
    )
    return Stale(method=_METHOD, changed=changed, unseen=unseen)


def _is_small(value: Any) -> bool:
    """Tell whether it costs nothing to look at whole: an epoch's number, weights, a short list."""
    if isinstance(value, dict | list | tuple | set):
        return len(value) <= _SHORT and all(map(_is_small, _inner(value)))
    return bool(getattr(value, "nbytes", 0) <= _LITTLE)


def _inner(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
