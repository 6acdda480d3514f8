"""``feedrate run``: a script as Python runs it, with workers that follow what its loop needs.

In this process and nothing else: the same input and output, signals and exit code. Loaders are made
elastic when they are first iterated where gradients are on, and steered as with
``num_workers="auto"``. What they came to is one line at the end, on standard error.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedrate.errors import TargetError
from feedrate.measure.after_import import after_import
from feedrate.measure.script import run_script
from feedrate.measure.wire import ScriptSpec

if TYPE_CHECKING:
    from feedrate.loader.pilot import Pilot
    from feedrate.measure.uses import Use

_MODULE = "-m"
_OWN = str(Path(__file__).parent)


def main(
    words: Sequence[str],
    steering: Steering | None = None,
    on_death: Callable[[BaseException], None] = lambda _: None,
) -> None:
    """Run ``script.py args...`` or ``-m module args...``; errors and exit codes are the script's.

    To be called in a fresh process, before torch is imported. ``on_death`` is called with the error
    that ends the script, after Python has shown it.
    """
    steering = steering or Steering()
    is_module = words[0] == _MODULE
    place, *argv = words[1:] if is_module else words
    after_import("torch", steering.install)
    atexit.register(steering.tell)
    try:
        run_script(ScriptSpec(place=place, argv=tuple(argv), module=is_module))
    except TargetError as error:
        if not _is_ours(error):
            raise
        sys.stderr.write(f"feedrate: {error}\n")
        sys.exit(error.exit_code)
    except SystemExit:
        raise
    except BaseException as error:
        _show_as_the_scripts(_beyond_ours(error.__traceback__), on_death)
        raise


def _is_ours(error: BaseException) -> bool:
    """Tell whether no line of the script was run."""
    return _beyond_ours(error.__traceback__) is None


def _beyond_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return the part of a traceback that begins in the script."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((_OWN, "<string>")):
        trace = trace.tb_next
    return trace


def _show_as_the_scripts(
    trace: types.TracebackType | None, on_death: Callable[[BaseException], None]
) -> None:
    """Let an error that nobody catches be shown as Python would show it without us."""
    show = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, _: types.TracebackType | None
    ) -> None:
        show(kind, error.with_traceback(trace), trace)
        if isinstance(error, Exception):  # and not Ctrl-C
            on_death(error)

    sys.excepthook = hook


class Steering:
    """Makes the loaders of this process elastic, and keeps a pilot for each."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._pilots: list[tuple[Use, Pilot]] = []

    def install(self) -> None:
        """Wrap ``__init__`` and ``__iter__`` of torch's DataLoader."""
        from torch.utils.data import DataLoader

        from feedrate.loader.kept_workers import before_epoch
        from feedrate.measure.places import place_of_making
        from feedrate.measure.uses import Uses

        uses = Uses()
        make: Any = DataLoader.__init__
        iterate: Any = DataLoader.__iter__

        @functools.wraps(make)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            make(loader, *args, **kwargs)
            if os.getpid() == self._owner:
                uses.made(loader, place_of_making(loader, sys._getframe(1)))

        @functools.wraps(iterate)
        def __iter__(loader: Any) -> Any:  # noqa: N807
            if os.getpid() == self._owner:
                use, is_new = uses.of(loader)
                if is_new:
                    self._steer(loader, use)
                before_epoch(loader)
            return iterate(loader)

        kind: Any = DataLoader
        kind.__init__ = __init__
        kind.__iter__ = __iter__

    def _steer(self, loader: Any, use: Use) -> None:
        import torch

        from feedrate.loader.adopt import adopt
        from feedrate.loader.dataloader import DataLoader, obstacle
        from feedrate.loader.kept_workers import keep_workers
        from feedrate.loader.pilot import Pilot
        from feedrate.measure.guard import missing_guard
        from feedrate.measure.target import is_iterable_dataset

        if (
            not torch.is_grad_enabled()  # a validation
            or isinstance(loader, DataLoader)
            or is_iterable_dataset(loader)
            or obstacle()
            or missing_guard(loader)
        ):
            return
        try:
            adopt(loader, on_worker_death="replace")
        except TargetError:
            return  # of a class that makes its batches in its own way
        pilot = next((pilot for known, pilot in self._pilots if known is use), None)
        if pilot is None:
            pilot = Pilot(prefetch=loader.prefetch_factor or 2)
            self._pilots.append((use, pilot))
        keep_workers(loader)
        loader.num_workers = pilot.controller.level
        loader.prefetch_factor = pilot.controller.prefetch
        vars(loader)["pilot"] = pilot

    def tell(self) -> None:
        """Say on standard error what the loaders came to."""
        if os.getpid() != self._owner:
            return
        told = self._told()
        if told and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"feedrate: {'; '.join(told)}\n")

    def _told(self) -> list[str]:
        return [_describe(use, pilot) for use, pilot in self._pilots if pilot.history]


def _describe(use: Use, pilot: Pilot) -> str:
    controller = pilot.controller
    settings = f"num_workers={controller.level}, prefetch_factor={controller.prefetch}"
    settled = "" if controller.settled else " so far"
    place = use.place
    where = f" for the loader of line {place.line}" if place.line is not None else ""
    if place.file is not None:
        where += f" in {Path(place.file).name}"
    return f"{settings}{settled}{where}"
