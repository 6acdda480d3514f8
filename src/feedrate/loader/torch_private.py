"""The names of torch that are not public, all in this one file.

Each is looked up on the installed torch and has a fallback; nothing else in feedrate may lean on
a name of torch's that begins with an underscore. Seen in torch 2.4 to 2.14.
"""

from __future__ import annotations

import contextlib
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from torch.utils.data import DataLoader


def forget_iterator(loader: DataLoader[Any]) -> None:
    """Drop the iterator that a loader with persistent workers keeps for its next epoch.

    A factory may have looked at a batch already; workers of the old settings must not be used on.
    """
    if getattr(loader, "_iterator", None) is not None:
        object.__setattr__(loader, "_iterator", None)


def set_checked_attribute(loader: DataLoader[Any], name: str, value: object) -> None:
    """Set an attribute that torch guards against changes once a loader is made.

    The guard protects loaders whose workers may be running; ours has not been iterated.
    """
    object.__setattr__(loader, name, value)


def worker_exit_codes(trace: TracebackType | None, patience: float = 0.0) -> tuple[int, ...]:
    """Return the exit codes of the ended workers of an iterator that an exception came through.

    torch's message often says no more than that a worker "exited unexpectedly". A negative code
    is a signal, as in `multiprocessing`. Empty where no such iterator is on the way.
    """
    while trace is not None:
        workers = getattr(trace.tb_frame.f_locals.get("self"), "_workers", None)
        if isinstance(workers, list) and workers:
            with contextlib.suppress(AttributeError, OSError, ValueError):
                wait([worker.sentinel for worker in workers], patience)
            codes = [getattr(worker, "exitcode", None) for worker in workers]
            return tuple(code for code in codes if isinstance(code, int) and code != 0)
        trace = trace.tb_next
    return ()
