"""Which way a process is looked into: for Python objects, or with memray for C code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from feedrate.measure.causes.inspector import Inspector
from feedrate.measure.causes.native import NativeInspector

Inspecting = Inspector | NativeInspector


def make_inspector(
    process: str,
    seconds: float,
    *,
    named: Mapping[str, object],
    epoch_items: float | None = None,
    expected: float | None = None,
    memray: bool = False,
    folder: Path | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Inspecting:
    """Return what looks into this process; see `Inspector` for what the arguments are.

    ``folder`` is where memray's records may lie meanwhile; without one they have one of their own.
    """
    if memray:
        return NativeInspector(
            process, seconds, epoch_items=epoch_items, folder=folder, clock=clock
        )
    return Inspector(
        process, seconds, named=named, epoch_items=epoch_items, expected=expected, clock=clock
    )
