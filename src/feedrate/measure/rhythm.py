"""When to look at memory: at equal phases of a loader's passes, and seldom enough.

The first passes are looked at one by one, for what fills up does so there. Once there are twice as
many as a verdict needs, and looking has taken more than its share of the time, only every second
one goes on being looked at, then every fourth, and so on: those that were looked at always lie
equally far apart and are enough for a verdict, and what they cost becomes less and less of the
time. Within a pass it is the last batch, the first one too unless looking has taken twice its share
or more, and of the phases between as many as the time allows, in turn. Where workers live for one
pass their growth shows within a pass alone, so that its first batch and one place between are
looked at always: each phase in turn, then halfway between the phases, and so on. The first pass may
be the last one, as where files are left open: it is looked at after every batch, then after every
second one, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

PHASES = 9
"""A pass has phases 0 to 9, as the analysis tells them apart."""
_BETWEEN = (4, 8, 2, 6, 1, 5, 7, 3)
_KEPT = 9
_DEAR = 2
_QUICK_SHARE = 0.3
"""So much of the time that looks may take is for those between the ends of passes."""
_FIRST_LOOKS = 16
"""After so many looks the first pass has half as many for the batches that follow."""
_REST = 1.1
"""Where looks are to rest they do so for at least this share of the time so far."""
_LOOKS_IN_ALL = 40
"""In passes so long that few come to their end, looks are this share of the time apart."""

Clock = Callable[[], float]


class Rhythm:
    """Decides where in the passes of one loader memory is looked at.

    Args:
        clock: returns seconds.
        duty: the share of the time that looks may take, in the long run.
        seconds: how long the watch lasts at most.
        fewest: how many passes have to be looked at.
    """

    def __init__(self, clock: Clock, *, duty: float, seconds: float, fewest: int) -> None:
        self._clock = clock
        self._duty = duty
        self._seconds = seconds
        self._fewest = fewest
        self.passes = 0
        self.stride = 1
        self.spent = 0.0
        self._started: float | None = None
        self._begun_at = 0.0
        self._spent_before = 0.0
        self._pass_seconds: list[float] = []
        self._costs: list[float] = []
        self._planned: tuple[float, ...] = ()
        self._has_end = False
        self._is_looked_at = True
        self._turn = 0
        self._looked_at = -math.inf
        self._rests_until: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the first pass began."""
        return 0.0 if self._started is None else self._clock() - self._started

    def begins(self, *, workers_end: bool) -> None:
        """Begin another pass; ``workers_end`` says that its workers end with it."""
        now = self._clock()
        if self._started is None:
            self._started = now
        else:
            taken = now - self._begun_at - (self.spent - self._spent_before)
            self._pass_seconds = [*self._pass_seconds, max(taken, 0.0)][-_KEPT:]
        enough = self.passes >= 2 * self._fewest * self.stride
        limit = self._duty * self.elapsed
        if enough and self.spent > limit:
            self.stride *= 2
        self._is_looked_at = self.passes % self.stride == 0
        least = 3 if workers_end else 1 if self.spent > _DEAR * limit else 2
        self._plan(least, finely=workers_end)
        self.passes += 1
        self._begun_at, self._spent_before = now, self.spent

    def due(self, batches: int, length: int | None, *, is_end: bool) -> bool:
        """Tell whether to look now, after so many batches of how many there should be."""
        if self._rests_until is not None:
            if not is_end or self.elapsed < self._rests_until:
                return False
            self._rests_until = None
            return True
        if not self._is_looked_at:
            return False
        if is_end:
            return self._has_end
        place = place_of(batches, length)
        if place is not None and self._planned and place >= self._planned[0]:
            self._planned = tuple(each for each in self._planned if each > place)
            return True
        return self._is_first_look(batches) or self._has_waited()

    def looked(self, seconds: float) -> None:
        """Take note of what a look took."""
        self.spent += seconds
        self._costs = [*self._costs, seconds][-_KEPT:]
        self._looked_at = self._clock()

    def rest(self) -> None:
        """Look no more until an end of a pass at which looking has taken its share at most."""
        elapsed = self.elapsed
        self._rests_until = max(self.spent / self._duty, _REST * elapsed)

    def _is_first_look(self, batches: int) -> bool:
        """Tell whether the first pass is to be looked at after so many batches."""
        apart, until = 1, _FIRST_LOOKS
        while batches > until:
            apart *= 2
            until += _FIRST_LOOKS * apart
        return self.passes == 1 and batches % apart == 0

    def _plan(self, least: int, *, finely: bool) -> None:
        """Set at which places of a pass to look: ``least`` times or more if it is looked at."""
        self._planned, self._has_end = (), self._is_looked_at
        if not self._is_looked_at:
            return
        count = least
        if self._pass_seconds:
            time = _QUICK_SHARE * self._duty * self.stride * median(self._pass_seconds)
            count = max(least, min(int(time / max(self._cost(), 1e-9)), PHASES + 1))
        if count > 1:
            between = [self._between(self._turn + n, finely) for n in range(count - 2)]
            self._turn += count - 2
            self._planned = tuple(sorted((0.0, *between)))

    @staticmethod
    def _between(turn: int, finely: bool) -> float:
        """Return a place between, each phase in turn; ``finely`` ever others between them."""
        rounds, phase = divmod(turn, len(_BETWEEN))
        later = 0.0
        if finely and rounds:  # its binary digits in reverse: 1/2, 1/4, 3/4, 1/8, ...
            digits = f"{rounds:b}"[::-1]
            later = int(digits, 2) / (1 << len(digits))
        return _BETWEEN[phase] - 0.5 + later

    def _cost(self) -> float:
        """Return what a quick look takes: some of the last ones were whole."""
        return sorted(self._costs)[len(self._costs) // 4] if self._costs else 0.0

    def _has_waited(self) -> bool:
        """Tell whether a pass has gone on for so long that it is looked at in any phase."""
        now = self._clock()
        cost = self._cost()
        gap = max(self._seconds / _LOOKS_IN_ALL, cost / self._duty)
        is_late = now - self._looked_at >= gap
        return is_late and self.spent + cost <= self._duty * self.elapsed


def place_of(batches: int, length: int | None) -> float | None:
    """Return where a pass is after so many batches, in phases; ``None`` where that is not known.

    The first batch is at 0; the last one, at `PHASES`, is told by its end.
    """
    if batches == 1:
        return 0.0
    if length is None or length < 2:
        return None
    return PHASES * (batches - 1) / (length - 1)
