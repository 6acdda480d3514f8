"""Watching one iterator: its object stays, and its ``__next__`` tells the time.

An iterator's class gets a subclass, so that it is an instance of what it was, with all that it has.
A generator, which can have no subclass, is run by another one.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from feedrate.measure.uses import Iteration, Use

if TYPE_CHECKING:
    from feedrate.measure.hook import Hook

WATCH = "_feedrate_watch"
"""The attribute of an iterator that holds its watch."""


def nothing_more() -> Any:
    """Give no batch."""
    raise StopIteration


class Watch:
    """Tells the session of one iteration."""

    def __init__(self, hook: Hook, iteration: Iteration) -> None:
        self._hook = hook
        self._iteration = iteration

    def next(self, fetch: Callable[[], Any], iterator: Any = None) -> Any:
        """Do what ``next()`` does, and tell of it."""
        hook, iteration = self._hook, self._iteration
        if not hook.is_active():
            return fetch()
        hook.check()
        session = hook.session
        session.asked(iteration, session.clock())
        if session.is_cached(iteration.use):
            batch = session.next_cached(iteration)
            iteration.given_at = session.clock()
            return batch
        started = session.clock()
        try:
            batch = fetch()
        except StopIteration:
            session.ended(iteration, session.clock() - started)
            raise
        return self.took(batch, session.clock() - started, iterator)

    def took(self, batch: Any, wait: float, iterator: Any) -> Any:
        """Tell of a batch that has been waited for."""
        hook, iteration = self._hook, self._iteration
        session = hook.session
        session.given(iteration, batch, wait)
        session.take_over(iteration, iterator, batch)
        if session.is_cached(iteration.use):
            hook.stand_ins.setdefault(iteration.use.number, iterator)
        iteration.given_at = session.clock()
        return batch


class OuterWatch:
    """Watches an iterator of a subclass's own, unless torch's is inside and is watched already.

    Which it is shows at the first batch: a generator runs only then.
    """

    def __init__(self, hook: Hook, use: Use, loader: Any, begin_seconds: float) -> None:
        self._hook = hook
        self._use = use
        self._loader: Any = loader
        self._begin_seconds = begin_seconds
        self._begun_before = hook.session.begun_count
        self._watch: Watch | None = None
        self._is_inside = False

    def next(self, fetch: Callable[[], Any], iterator: Any = None) -> Any:
        """Do what ``next()`` does, and tell of it where nobody else does."""
        if self._watch is not None:
            return self._watch.next(fetch, iterator)
        if self._is_inside or not self._hook.is_active():
            return fetch()
        session, use, before = self._hook.session, self._use, self._use.asked
        self._hook.check()
        started = session.clock()
        batch = fetch()
        if use.asked != before:
            self._is_inside = True
            self._loader = None
            inner = session.current
            if inner is not None and inner.order <= self._begun_before:
                inner.is_endless = True  # it goes on from one outer iteration to the next
            return batch
        self._hook.own_ways.add(use.number)
        wait = session.clock() - started
        iteration = session.begins(use, self._loader)
        self._loader = None
        session.begun(iteration, self._begin_seconds)
        self._watch = Watch(self._hook, iteration)
        use.asked += 1
        return self._watch.took(batch, wait, None)


def watched(iterator: Any, watch: Watch | OuterWatch) -> Any:
    """Make an iterator tell the watch of its batches; return it, or a generator in its place."""
    if isinstance(watch, Watch) and getattr(iterator, WATCH, None) is not None:
        setattr(iterator, WATCH, watch)  # one that persistent workers keep
        return iterator
    try:
        kind: Any = type(iterator)
        iterator.__class__ = _watching_class(kind)
        setattr(iterator, WATCH, watch)
    except (TypeError, AttributeError):  # a generator, or another type of Python's own
        return generate(watch, functools.partial(next, iterator), iterator)
    return iterator


@functools.cache
def _watching_class(kind: Any) -> type:
    """Return a subclass whose ``__next__`` goes by the watch of the object.

    Raises:
        TypeError: there can be none.
    """
    original: Any = kind.__next__

    def __next__(self: Any) -> Any:  # noqa: N807
        watch = vars(self).get(WATCH)
        if watch is None:
            return original(self)
        return watch.next(functools.partial(original, self), self)

    own = {
        "__next__": __next__,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return types.new_class(kind.__name__, (kind,), {}, lambda names: names.update(own))


def generate(
    watch: Watch | OuterWatch, fetch: Callable[[], Any], inner: Any = None
) -> Iterator[Any]:
    """Yield what ``fetch`` gives, told to the watch; close the inner generator at the end."""
    try:
        while True:
            try:
                batch = watch.next(fetch)
            except StopIteration:
                return
            yield batch
    finally:
        close = getattr(inner, "close", None)
        if close is not None:
            close()
