"""Looks at a child's memory whenever it stands still for that, and tells it when to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from feedrate.analysis.forecast import share_taken
from feedrate.host.memory_eyes import MemoryEyes
from feedrate.measure import wire
from feedrate.measure.depths import Depths
from feedrate.measure.observer import Observer
from feedrate.memory_records import DeviceReading, MemoryLook, MemoryRoom, MemoryWatch
from feedrate.records import LoaderFacts

T = TypeVar("T")
WantsMore = Callable[[MemoryWatch], int | None]
"""Returns how many epochs more the verdicts need, ``None`` where none is open."""
OnLook = Callable[[MemoryLook], None]

_AGAIN = 0.5
"""After this share of the epochs that were still wanted it is asked again."""
LOOKED_AT = 5.0
"""Where epochs are short it is looked at for so many seconds before a verdict lets the looks rest:
the more epochs, the less can hide."""
MUCH = 0.2
"""A verdict lets the loop go on without looks until they have taken their share of the time at
most; unless it would take this share of the memory, or of what else is left, meanwhile."""


class Eyes(Protocol):
    """Looks at the processes of one run; see `MemoryEyes`."""

    def look(
        self,
        *,
        at: float,
        epoch: int,
        items: int,
        own: Collection[int] | None,
        device: DeviceReading | None = None,
        whole: bool = True,
        one_worker: bool = False,
    ) -> MemoryLook | None:
        """Return a look at phase 0, ``None`` where the main process is gone."""

    def room(self, look: MemoryLook, device_free: int | None) -> MemoryRoom:
        """Return what is left at the moment of a look."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A look, and the mark at which it was taken; its phase is not filled in yet."""

    mark: wire.Mark
    look: MemoryLook


class MemoryObserver(Observer):
    """Takes a look at each mark, and keeps them.

    Args:
        wants_more: asked each time that an epoch was looked at to its end, once there are
            ``fewest`` of them.
        fewest: of so many epochs a verdict can be had.
        duty: the share of the time that looks may take.
        on_look: told of each look.
        eyes: makes what looks at the processes of a main process.
    """

    def __init__(
        self,
        wants_more: WantsMore,
        fewest: int,
        duty: float,
        on_look: OnLook,
        eyes: Callable[[int], Eyes] = MemoryEyes,
    ) -> None:
        super().__init__()
        self._wants_more = wants_more
        self._fewest = fewest
        self._duty = duty
        self._depths = Depths(duty)
        self._on_look = on_look
        self._make_eyes = eyes
        self._eyes: Eyes | None = None
        self._seen: list[Seen] = []
        self._room = MemoryRoom()
        self._started: float | None = None
        self._ended = 0.0
        self._stood = 0.0
        self._aside = 0.0
        self._ask_at = fewest
        self._is_enough = False
        self._cannot_rest = False
        self._rests = False
        self._rested = 0

    def attach(self, pid: int, originals: Sequence[int] = ()) -> None:  # noqa: ARG002
        """Begin with the process and what it starts; what is watched is never forked."""
        self._eyes = self._make_eyes(pid)

    def batch_seen(self) -> None:
        """Plan nothing: the child says when."""

    def poll(self) -> None:
        """Take nothing in between."""

    def marked(self, mark: wire.Mark, reply: Callable[[bytes], None]) -> None:
        """Look, let the child go on or end it, and judge meanwhile.

        Where all is known and looking has taken more than its share, it goes on without looks.
        """
        begin = time.perf_counter()
        if self._started is None:
            self._started = begin
        self._ended = begin  # at once: Ctrl-C may come anywhere below
        look = None
        is_over = self._is_over(begin)
        if self._rests:  # a look so long after the others would be no part of their series
            self._rested = mark.epoch + mark.is_end
            reply(wire.STOP if is_over else wire.REST)
            return
        self._rests = self._is_enough and not is_over
        is_final = mark.is_last or self._is_enough
        depth = "whole" if is_final else self._depths.due(mark, begin - self._started)
        if self._eyes is not None:
            look = self._eyes.look(
                at=begin - self._started,
                epoch=mark.epoch,
                items=mark.items,
                own=mark.workers,
                device=mark.device,
                whole=depth == "whole",
                one_worker=depth == "worker",
            )
        self._depths.took(depth, time.perf_counter() - begin)
        reply(wire.STOP if is_over else wire.REST if self._rests else wire.GO)
        replied = time.perf_counter()
        if look is not None and self._eyes is not None:
            self._seen.append(Seen(mark=mark, look=look))
            if depth != "counters" or len(self._seen) == 1:
                self._room = self._eyes.room(look, mark.device_free)
            self._on_look(look)
            if mark.is_end and not is_final:
                self._judge(mark, begin - self._started)
        self._stood = max(mark.stood, self._stood)
        if mark.is_last or is_over:
            return  # the loop is over: what comes now slows nothing down
        self._ended = time.perf_counter()
        self._stood += replied - begin  # until the next mark tells how long it was for the loop
        self._aside += self._ended - replied

    def watch(self, used: wire.Used | None, facts: LoaderFacts | None) -> MemoryWatch | None:
        """Return the watch of the training loader; ``None`` where nothing was seen of it."""
        if not self._seen:
            return None
        number = self._seen[-1].mark.loader
        if used is not None and used.training_loader is not None:
            number = used.training_loader
        made = make_watch(self._seen, number, facts)
        if not made.looks:
            return None
        return msgspec.structs.replace(
            made,
            room=self._room,
            seconds=self._ended - (self._started or 0.0),
            spent_seconds=self._spent,
            rested_epochs=max(0, self._rested - made.complete_epochs),
        )

    @property
    def _spent(self) -> float:
        """What looking has taken so far: of the loop's time, and beside it."""
        return self._stood + self._aside

    def _is_over(self, now: float) -> bool:
        """Tell whether all is known, and looking has taken its share at most or memory is short."""
        if not self._is_enough:
            return False
        elapsed = now - (self._started or now)
        return self._cannot_rest or self._spent <= self._duty * elapsed

    def _would_fill(self, loader: int, elapsed: float) -> bool:
        """Tell whether a limit would come much nearer, were the loop to go on for a rest.

        Ends of passes are held against each other, for workers grow while they start; not the
        first one where there are more, for what fills up does so there.
        """
        ends = [e.look for e in self._seen if e.mark.is_end and e.mark.loader == loader]
        first, last = ends[1] if len(ends) > 2 else ends[0], ends[-1]
        rest = max(self._spent / self._duty, LOOKED_AT) - elapsed
        return share_taken(first, last, self._room) * rest > MUCH * (last.at - first.at)

    def _judge(self, mark: wire.Mark, elapsed: float) -> None:
        looked_at = {
            each.mark.epoch
            for each in self._seen
            if each.mark.is_end and each.mark.loader == mark.loader
        }
        is_urgent = self._would_fill(mark.loader, elapsed)
        if len(looked_at) < self._ask_at:
            return
        if not is_urgent and elapsed < LOOKED_AT and self._spent > self._duty * elapsed:
            return
        self._cannot_rest = is_urgent
        watch = make_watch(self._seen, mark.loader, None)
        more = self._wants_more(msgspec.structs.replace(watch, room=self._room))
        self._is_enough = more is None
        if more is None:
            return
        apart = (max(looked_at) - min(looked_at)) / (len(looked_at) - 1)
        self._ask_at = len(looked_at) + max(1, round(_AGAIN * more / max(1.0, apart)))


def make_watch(seen: Sequence[Seen], number: int, facts: LoaderFacts | None) -> MemoryWatch:
    """Return the watch of one loader, each look with the phase of its epoch."""
    own = [each for each in seen if each.mark.loader == number]
    last: dict[int, int] = {}
    for each in own:
        last[each.mark.epoch] = max(each.mark.batches, last.get(each.mark.epoch, 0))
    # a pass that went on after what was thought to be its end did not end there
    ends = {
        each.mark.epoch: each.mark.batches
        for each in own
        if each.mark.is_end and each.mark.batches == last[each.mark.epoch]
    }
    usual = max(ends.values(), default=None)
    looks = []
    for each in own:
        mark = each.mark
        known = (ends.get(mark.epoch), mark.length, usual)
        length = next((n for n in known if n is not None and n >= last[mark.epoch]), None)
        looks.append(msgspec.structs.replace(each.look, phase=_phase(mark, length)))
    return MemoryWatch(
        looks=tuple(looks),
        complete_epochs=max(ends, default=-1) + 1,
        num_workers=facts.num_workers if facts is not None else _workers(own),
        start_method=facts.start_method if facts is not None else None,
        persistent_workers=facts.persistent_workers if facts is not None else False,
        dataset_length=facts.dataset_length if facts is not None else None,
        carried=_latest(each.mark.carried for each in own),
        indices=_latest(each.mark.indices for each in own),
        readable=_latest(each.mark.readable for each in own),
    )


def _latest(told: Iterable[T | None]) -> T | None:
    return next((each for each in reversed(list(told)) if each is not None), None)


def _phase(mark: wire.Mark, length: int | None) -> float:
    """Return the share of the epoch, 0 at its first batch; also 0 where its length is unknown."""
    if mark.is_end and mark.batches == length:
        return 1.0
    if length is None or length < 2:
        return 0.0
    return min((mark.batches - 1) / (length - 1), 0.999)


def _workers(seen: Sequence[Seen]) -> int:
    return max((len(each.look.workers) for each in seen), default=0)
