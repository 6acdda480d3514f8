"""The pass inside a worker, brought there by the loader's own collate function.

That is called with the items of every batch, in every worker, however it was started and however
long it lives, and it is pickled where the dataset is. Wrapped, it leaves seeds, order and items as
they are. The workers but one only call the original.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from feedrate.measure.causes.inspecting import Inspecting, make_inspector
from feedrate.measure.causes.inspection import Inspection
from feedrate.measure.scratch import make_scratch
from feedrate.memory_records import GrowthCause

_SUFFIX = ".json"


class BatchSize(msgspec.Struct, frozen=True):
    """What a sampler says of the size of its batches, ``None`` where it says nothing."""

    batch_size: int | None


class BatchSizes(msgspec.Struct, frozen=True):
    """A loader without batches of its own, as `feedrate.measure.batch.item_counter` asks it."""

    sampler: BatchSize
    batch_sampler: None = None


class InspectingCollate:
    """Collates as the original does, and has the worker ``number`` look at itself meanwhile.

    What it sees is a file in ``folder``, written anew as more is seen. ``epoch_items`` is how often
    the worker takes something from the dataset in an epoch. ``sizes`` is what the loader tells of
    its batches where it makes none itself: then what was taken comes alone, and may be a tuple, or
    a batch of several items already.
    """

    def __init__(
        self,
        original: Callable[[Any], Any],
        folder: str,
        number: int,
        seconds: float,
        epoch_items: float | None,
        expected: float | None,
        memray: bool,
        sizes: BatchSizes | None,
    ) -> None:
        self.original = original
        self._folder = folder
        self._number = number
        self._seconds = seconds
        self._epoch_items = epoch_items
        self._expected = expected
        self._memray = memray
        self._sizes = sizes
        self._count: Callable[[Any], int] | None = None
        self._here: tuple[int, Inspecting | None] | None = None

    def __call__(self, items: Any) -> Any:
        """Collate."""
        batch = self.original(items)
        inspector = self._inspector(batch)
        if inspector is None or inspector.is_over:
            return batch
        seen = inspector.inspection
        inspector.passed(self._items_of(items, batch))
        if inspector.inspection is not seen:
            _write(Path(self._folder), inspector.inspection)
        return batch

    def __getattr__(self, name: str) -> Any:
        """Return what the original has of that name."""
        if name == "original" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.original, name)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker that is spawned needs: no inspector of another process."""
        return vars(self) | {"_here": None, "_count": None}

    def _items_of(self, items: Any, batch: Any) -> int:
        """Count as the main process does, which gets the batch."""
        if self._count is not None:
            return self._count(batch)
        return len(items) if isinstance(items, list | tuple) else 1

    def _inspector(self, batch: Any) -> Inspecting | None:
        """Return the inspector of this process, ``None`` in all but the one worker."""
        if self._here is None or self._here[0] != os.getpid():
            self._here = os.getpid(), self._make(batch)
        return self._here[1]

    def _make(self, batch: Any) -> Inspecting | None:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        if info is None or info.id != self._number:
            return None
        epoch_items = self._epoch_items
        if self._sizes is not None:
            from feedrate.measure.batch import item_counter

            self._count = item_counter(batch, self._sizes)
            epoch_items = None if epoch_items is None else epoch_items * self._count(batch)
        made = make_inspector(
            f"worker {self._number}",
            self._seconds,
            named={"dataset": info.dataset, "collate_fn": self.original},
            epoch_items=epoch_items,
            expected=self._expected,
            memray=self._memray,
            folder=Path(self._folder),
        )
        if self._memray:
            # it tells only at its end, which comes with the epoch where workers do not stay
            Finalize(None, self._close, args=(made,), exitpriority=0)
        return made

    def _close(self, inspector: Inspecting) -> None:
        seen = inspector.inspection
        inspector.close()
        if inspector.inspection is not seen:
            _write(Path(self._folder), inspector.inspection)


class WorkerProbe:
    """Connects a loader's worker with this process, until it is closed."""

    def __init__(
        self,
        loader: Any,
        *,
        worker: int,
        seconds: float,
        epoch_items: float | None,
        expected: float | None,
        memray: bool,
    ) -> None:
        self._process = f"worker {worker}"
        self._folder = make_scratch("causes")
        # the program may let the loader go, and its workers with it
        self._loader: weakref.ref[Any] = weakref.ref(loader)
        self._original = loader.collate_fn
        loader.collate_fn = InspectingCollate(
            loader.collate_fn,
            str(self._folder),
            worker,
            seconds,
            epoch_items,
            expected,
            memray,
            _sizes(loader),
        )

    def __enter__(self) -> WorkerProbe:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    @property
    def is_over(self) -> bool:
        """Whether the worker has said all that it will."""
        return any(each.is_complete for each in self._read())

    def inspection(self) -> Inspection:
        """Return what was seen; where workers come and go, by the one that saw most."""
        seen = self._read()
        if not seen:
            return Inspection(
                process=self._process,
                growth=GrowthCause(process="worker", grown=0),
                is_complete=False,
            )
        return max(seen, key=lambda each: (each.is_complete, bool(each.objects), each.items))

    def close(self) -> None:
        """Leave the loader as it was, and nothing on disk."""
        loader = self._loader()
        if loader is not None and isinstance(loader.collate_fn, InspectingCollate):
            loader.collate_fn = self._original
        for each in self._folder.glob("*"):
            each.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _read(self) -> list[Inspection]:
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Inspection))
        return found


def probe_worker(
    loader: Any,
    *,
    worker: int = 0,
    seconds: float,
    epoch_items: float | None = None,
    expected: float | None = None,
    memray: bool = False,
) -> WorkerProbe:
    """Have one worker of a loader look at itself for so many seconds, from the next ``iter()`` on.

    Workers that run already do not take part. ``epoch_items`` is how many items an epoch brings to
    this worker, ``expected`` by how many bytes it was seen to grow with each. With ``memray`` it is
    C code that is asked for.
    """
    return WorkerProbe(
        loader,
        worker=worker,
        seconds=seconds,
        epoch_items=epoch_items,
        expected=expected,
        memray=memray,
    )


def _sizes(loader: Any) -> BatchSizes | None:
    if getattr(loader, "batch_sampler", loader) is not None:
        return None
    size = getattr(getattr(loader, "sampler", None), "batch_size", None)
    return BatchSizes(sampler=BatchSize(size if isinstance(size, int) else None))


def _write(folder: Path, inspection: Inspection) -> None:
    """Write a whole file or none; a folder that is gone means that nobody asks any more."""
    path = folder / f"{os.getpid()}{_SUFFIX}"
    part = path.with_suffix(".part")
    with contextlib.suppress(OSError):
        part.write_bytes(msgspec.json.encode(inspection))
        part.replace(path)
