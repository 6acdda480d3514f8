"""What tensors take along that come from a worker: the whole storages that they look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from feedrate.host.files import SystemReader
from feedrate.measure.batch import leaves
from feedrate.memory_records import BatchCarried

BATCHES = 16
"""So many are looked at: a few of each worker."""
_MUCH = 2.0
"""The name of a storage is looked up where it is this many times what is used of it."""

Name = Callable[[int], str | None]


def mapping_at(address: int) -> str | None:
    """Return device and inode of what this process has mapped at an address, ``None`` if unknown.

    See proc_pid_maps(5).
    """
    for line in (SystemReader().read("/proc/self/maps") or "").splitlines():
        span, _, _, device, inode, *_ = line.split(None, 5)
        first, _, last = span.partition("-")
        if int(first, 16) <= address < int(last, 16):
            return f"{device} {inode}" if inode != "0" else None
    return None


class Carrying:
    """Looks at the first batches of a loader. ``name`` says what lies at an address."""

    def __init__(self, name: Name = mapping_at) -> None:
        self._name = name
        self._batches = 0
        self._names: set[str] = set()
        self._worst: tuple[int, int, int] | None = None

    def saw(self, batch: Any) -> None:
        """Look at a batch, if there were not enough of them by now."""
        if self._batches == BATCHES:
            return
        self._batches += 1
        shown: dict[int, int] = {}
        whole: dict[int, int] = {}
        for leaf in leaves(batch):
            storage = _shared_storage(leaf)
            if storage is not None:
                place = storage.data_ptr()
                shown[place] = shown.get(place, 0) + leaf.nbytes
                whole[place] = storage.nbytes()
        views = {place for place in whole if whole[place] > _MUCH * shown[place]}
        names = {name for place in views if (name := self._name(place)) is not None}
        if not names:
            return
        self._names |= names
        made = (sum(whole.values()), sum(shown.values()), len(views))
        if self._worst is None or made > self._worst:
            self._worst = made

    def record(self) -> BatchCarried | None:
        """Return what was seen, ``None`` where nothing takes more along than it shows."""
        if self._worst is None:
            return None
        carried, shown, at_once = self._worst
        return BatchCarried(
            view_bytes=shown,
            storage_bytes=carried,
            at_once=at_once,
            storages=len(self._names),
            batches=self._batches,
        )


def _shared_storage(leaf: Any) -> Any:
    """Return the storage of a tensor that has come from another process, ``None`` of all else."""
    try:
        storage = leaf.untyped_storage()
        return storage if storage.is_shared() and storage.device.type == "cpu" else None
    except (RuntimeError, NotImplementedError, AttributeError):
        return None  # no tensor, or one without a storage
