"""What changes in the dataset after its workers have started: whether these see it, tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch.utils.data import DataLoader, get_worker_info

from feedrate.measure.examined import Stale
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.examining.small import copies_of, digests_of, put
from feedrate.measure.examining.twins import replaced

_METHOD = "set_epoch"
_EPOCHS = (1, 2)
"""Two, for it may stand at one of them; small, for it may have something for each."""
_MOST_BATCHES = 16


class _Attributes:
    """A collate function that tells the digests of the attributes of the worker's own dataset."""

    def __call__(self, _: Any) -> dict[str, str]:
        info = get_worker_info()
        return digests_of(info.dataset) if info is not None else {}


def try_set_epoch(loader: DataLoader[Any]) -> Stale | None:
    """Call the dataset's own ``set_epoch`` between two epochs of kept workers.

    ``None`` where it has none, or where that changes no attribute.
    """
    dataset: Any = loader.dataset
    if not callable(getattr(dataset, _METHOD, None)):
        return None
    twin = _twin(loader)
    before = digests_of(dataset)
    changed: tuple[str, ...] = ()
    for epoch in _EPOCHS:
        if not changed:
            dataset.set_epoch(epoch)
            changed = _changed(before, digests_of(dataset))
    return _judge(twin, changed, _METHOD) if changed else None


def try_changes(loader: DataLoader[Any], before: Mapping[str, Any]) -> Stale | None:
    """Give attributes of the dataset the values of ``before``, between two epochs of kept workers.

    They have their own again at the end. ``None`` where that changes nothing.
    """
    dataset: Any = loader.dataset
    own = copies_of(dataset)
    twin = _twin(loader)
    was = digests_of(dataset)
    for name, value in before.items():
        put(dataset, name, value)
    try:
        changed = _changed(was, digests_of(dataset))
        return _judge(twin, changed, "") if changed else None
    finally:
        for name in before:
            if name in own:
                put(dataset, name, own[name])


def find_reads(
    loader: DataLoader[Any], names: Iterable[str], indices: Iterable[Any], tell: Tell, place: Place
) -> None:
    """Tell which of the attributes items read; to be called in a probe, whose dataset it changes.

    All of them where the dataset's class cannot be replaced by one that listens.
    """
    dataset: Any = loader.dataset
    kind: Any = type(dataset)
    seen: set[str] = set()

    def listen(it: Any, name: str) -> Any:
        seen.add(name)
        return kind.__getattribute__(it, name)

    asked = tuple(names)
    try:
        dataset.__class__ = type(kind.__name__, (kind,), {"__getattribute__": listen})
    except TypeError:
        tell(Stale(method="", changed=asked))
        return
    for number, index in enumerate(indices):
        place.at = number
        dataset[index]
    tell(Stale(method="", changed=tuple(name for name in asked if name in seen)))


def _twin(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return a copy whose workers have started and tell of their dataset's attributes."""
    twin = replaced(
        loader, batch_sampler=[[0]] * _MOST_BATCHES, batch_size=None, drop_last=False, timeout=0
    )
    twin.collate_fn = _Attributes()
    for _ in twin:
        pass
    return twin


def _judge(twin: DataLoader[Any], changed: tuple[str, ...], method: str) -> Stale:
    after = digests_of(twin.dataset)
    seen = [each for each in twin if each]
    unseen = tuple(
        name for name in changed if any(each.get(name, after[name]) != after[name] for each in seen)
    )
    return Stale(method=method, changed=changed, unseen=unseen)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in after if after[name] != before.get(name))
