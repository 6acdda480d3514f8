"""What a trial sets in its workers, after the user's own ``worker_init_fn``: threads and CPUs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

_LIBRARIES = re.compile(
    r"(\S*(?:openblas|mkl_rt|blis|gomp|iomp|libomp)[^\s/]*\.so\S*)$", re.MULTILINE
)
_SETTERS = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "scipy_openblas_set_num_threads64_",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
    "omp_set_num_threads",
)


class OneThread:
    """A ``worker_init_fn``: the user's own, then one thread for all libraries that are loaded."""

    def __init__(self, own: Callable[[int], Any] | None) -> None:
        self._own = own

    def __call__(self, worker: int) -> None:
        """Set up a worker."""
        if self._own is not None:
            self._own(worker)
        with contextlib.suppress(ImportError):
            import numpy  # noqa: F401  # its BLAS is loaded with it
        limit_threads()


class AllCpus:
    """A ``worker_init_fn``: the user's own, then the CPUs that this process began with."""

    def __init__(self, own: Callable[[int], Any] | None, cpus: Iterable[int]) -> None:
        self._own, self._cpus = own, tuple(cpus)

    def __call__(self, worker: int) -> None:
        """Set up a worker."""
        if self._own is not None:
            self._own(worker)
        set_to = getattr(os, "sched_setaffinity", None)
        if set_to is not None:
            with contextlib.suppress(OSError):
                set_to(0, self._cpus)


class MoreThreads:
    """A ``worker_init_fn``: the user's own, then more of torch's threads than the one it sets."""

    def __init__(self, own: Callable[[int], Any] | None, count: int) -> None:
        self._own, self._count = own, count

    def __call__(self, worker: int) -> None:
        """Set up a worker."""
        if self._own is not None:
            self._own(worker)
        import torch

        torch.set_num_threads(self._count)


def limit_threads() -> int:
    """Set the libraries that are loaded in this process to one thread; return how many took it."""
    try:
        with open("/proc/self/maps") as maps:  # noqa: PTH123
            paths = set(_LIBRARIES.findall(maps.read()))
    except OSError:
        return 0
    taken = 0
    for path in paths:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for name in _SETTERS:
                if hasattr(library, name):
                    getattr(library, name)(ctypes.c_int(1))
                    taken += 1
    return taken
