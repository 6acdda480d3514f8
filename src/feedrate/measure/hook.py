"""The hook: tells a session of every DataLoader that is made and iterated, and of optimizer steps.

`torch.utils.data.DataLoader.__init__` and ``__iter__`` are wrapped, and those of subclasses that
have an ``__iter__`` of their own. An iterator stays the object that it is: its class gets a
subclass whose ``__next__`` tells the time. The hook does nothing in any other process than the one
that installed it: in workers, and in what a script starts itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from feedrate.measure.places import place_of_making
from feedrate.measure.sessions import Enough, Session
from feedrate.measure.uses import Iteration
from feedrate.measure.watches import WATCH, OuterWatch, Watch, generate, nothing_more, watched

_SWALLOWED_AT_MOST = 2


class Hook:
    """Connects one session to this process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.owner = os.getpid()
        self.is_installed = False
        self.stand_ins: dict[int, Any] = {}
        self.own_ways: set[int] = set()
        self._swallowed = 0
        self._undo: list[Callable[[], None]] = []

    def is_active(self) -> bool:
        """Tell whether to watch, here and now."""
        return self.is_installed and os.getpid() == self.owner

    def install(self) -> None:
        """Begin to watch."""
        self.is_installed = True
        self._wrap(DataLoader, "__init__", self._wrapped_init)
        self._wrap(DataLoader, "__iter__", self._wrapped_iter)
        for kind in _subclasses(DataLoader):
            self._wrap_subclass(kind)
        hook = self
        torchs: Any = DataLoader

        def on_subclass(cls: Any, /, **keywords: Any) -> None:
            super(torchs, cls).__init_subclass__(**keywords)
            if hook.is_installed:
                hook._wrap_subclass(cls)

        self._set(DataLoader, "__init_subclass__", classmethod(on_subclass))
        handle = register_optimizer_step_post_hook(self._on_optimizer_step)
        self._undo.append(handle.remove)

    def remove(self) -> None:
        """Leave everything as it was."""
        self.is_installed = False
        while self._undo:
            self._undo.pop()()
        self.stand_ins.clear()

    def check(self) -> None:
        """End a target that swallowed the end and goes on.

        Raises:
            Enough: all is measured.
        """
        if not self.session.is_over:
            return
        self._swallowed += 1
        if self._swallowed > _SWALLOWED_AT_MOST:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(0)
        raise Enough

    def _on_optimizer_step(self, *_: Any) -> None:
        if self.is_active():
            self.session.optimizer_stepped()

    # Wrapping

    def _wrap(self, kind: type, name: str, make: Callable[[Any], Any]) -> None:
        self._set(kind, name, make(vars(kind)[name]))

    def _set(self, kind: type, name: str, value: Any) -> None:
        had, before = name in vars(kind), vars(kind).get(name)
        setattr(kind, name, value)

        def undo() -> None:
            if had:
                setattr(kind, name, before)
            elif name in vars(kind):
                delattr(kind, name)

        self._undo.append(undo)

    def _wrap_subclass(self, kind: type) -> None:
        own = vars(kind)
        if isinstance(own.get("__iter__"), types.FunctionType):
            self._wrap(kind, "__iter__", self._wrapped_outer_iter)
            if isinstance(own.get("__init__"), types.FunctionType):
                self._wrap(kind, "__init__", self._wrapped_init)  # it may not call torch's

    def _wrapped_init(self, original: Any) -> Any:
        @functools.wraps(original)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(loader, *args, **kwargs)
            if self.is_active():
                place = place_of_making(loader, sys._getframe(1))
                self.session.uses.made(loader, place)

        return __init__

    def _wrapped_iter(self, original: Any) -> Any:
        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:  # noqa: N807
            return self._iterate(loader, original) if self.is_active() else original(loader)

        return __iter__

    def _wrapped_outer_iter(self, original: Any) -> Any:
        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:  # noqa: N807
            return self._iterate_outer(loader, original) if self.is_active() else original(loader)

        return __iter__

    # Iterating

    def _iterate(self, loader: Any, original: Any) -> Any:
        self.check()
        session = self.session
        use = session.seen(loader)
        iteration = session.begins(use, loader)
        if session.is_cached(use):
            session.begun(iteration, 0.0)
            return self._stand_in(iteration)
        started = session.clock()
        iterator = original(loader)
        session.begun(iteration, session.clock() - started)
        return watched(iterator, Watch(self, iteration))

    def _iterate_outer(self, loader: Any, original: Any) -> Any:
        """Iterate a loader whose class does it in its own way, with torch's inside or not."""
        self.check()
        session = self.session
        use = session.seen(loader)
        if use.number in self.own_ways and session.is_cached(use):
            iteration = session.begins(use, loader)
            session.begun(iteration, 0.0)
            return self._stand_in(iteration)
        started = session.clock()
        iterator = original(loader)
        if getattr(iterator, WATCH, None) is not None:
            return iterator  # torch's own, which is watched
        outer = OuterWatch(self, use, loader, session.clock() - started)
        return watched(iterator, outer)

    def _stand_in(self, iteration: Iteration) -> Any:
        """Return what gives the cached batch: the iterator that the loader had, if there is one."""
        watch = Watch(self, iteration)
        iterator = self.stand_ins.get(iteration.use.number)
        if iterator is None or iteration.use.number in self.own_ways:
            return generate(watch, nothing_more)
        setattr(iterator, WATCH, watch)
        return iterator


def _subclasses(kind: type) -> Iterator[type]:
    each: type
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
