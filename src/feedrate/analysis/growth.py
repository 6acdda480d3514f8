"""Does a series grow? A verdict that can be trusted in both directions, or what it still needs.

One value for each epoch (`feedrate.analysis.phases` makes them). A verdict "grows" needs

- a trend: the Theil–Sen slope of the tail excludes zero with a confidence of 99.98 %; the tail
  gains more than was ever taken back, as a collector or a sawtooth does; and it rises in more than
  a few single steps;
- a size that matters: see `Scale`;
- a second look: the same was true two epochs before, and the last third still rises at half the
  pace of the third before it, or more.

"none" needs the opposite: no growth above what matters could hide in the tail; or there is no trend
in it, and what could hide is far from any limit. Between them the
answer is "undecided", with how many more epochs it takes; the fewest for any verdict are 9.

Without noise "grows" takes those 9 at any rate that matters, 200 bytes an item too. With Gaussian
noise on each epoch's value it takes, by the growth per epoch over the noise's standard deviation
(median of 20 seeds; recomputed in ``tests/analysis/test_growth_power.py``):

=============  ======
growth, noise  epochs
=============  ======
10×                 9
2×                  9
1×                 18
0.5×               22
0.2×               38
0.1×               56
=============  ======
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from feedrate.analysis.levelling import Levelling, levelling
from feedrate.analysis.stats import Interval
from feedrate.analysis.tail import FEWEST, WARM_UP, Tail, epochs_for, tail

GrowthVerdict = Literal["grows", "levels_off", "none", "undecided"]

SECOND_LOOK = 2
"""So many epochs after it was first suspected, growth must still be there."""
FEWEST_EPOCHS = epochs_for(FEWEST) + SECOND_LOOK
_STILL_RISING = 0.5
_BENT = 0.6
"""A rise levels off where its last step is at most this share of its first one, by the curve."""
_MOST = 10_000

BYTES_PER_ITEM = 100.0
BYTES_PER_EPOCH = 64 * 1024.0
BYTES_PER_PROCESS = 16 * 1024.0
"""Four pages: less is what any process gains or loses by chance."""
_RESOLUTION = 64 * 1024.0


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure can tell, and what of it matters.

    ``matters`` is the least growth per epoch that is worth a word. ``resolution`` is what may be
    taken without the figure moving: an allocator gives out what it holds before it asks for more.
    ``tolerated``, where it is more than what matters, is how much may hide in a figure that moves
    up and down without a trend: the limit is far away at that rate.
    """

    matters: float
    resolution: float
    tolerated: float = 0.0

    @staticmethod
    def of_bytes(items: float, processes: int = 1) -> Scale:
        """Return the scale of memory, for the mean of so many processes.

        What matters is, of all of them together, 100 bytes an item or 64 KiB an epoch, whichever
        is more; and 16 KiB an epoch in each.
        """
        together = max(BYTES_PER_EPOCH, BYTES_PER_ITEM * items)
        return Scale(matters=max(BYTES_PER_PROCESS, together / processes), resolution=_RESOLUTION)

    @staticmethod
    def of_counts(items: float, processes: int = 1) -> Scale:
        """Return the same of descriptors and processes: one an epoch, or one in 1,000 items."""
        # A little less than one, which a slope of exactly one has to pass.
        return Scale(matters=max(0.9, items / 1000 / processes), resolution=1.0)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one series; all figures in its own unit.

    Attributes:
        verdict: "grows" without an end in sight; "levels_off": still rises, by less each epoch;
            "none"; or "undecided".
        slope: what the tail rises by from one value to the next; ``interval`` is where that lies
            (95 %).
        values: how many values there are; ``tail`` of them count.
        warm_up: how far the tail's middle value lies above the first value of all.
        hidden: the most growth from value to value that these values cannot rule out; ``None`` for
            fewer than two.
        more: of "undecided", about how many values more would tell; ``None`` where none would.
        curve: the curve that the values after the first epoch follow to an end, if they do.
    """

    verdict: GrowthVerdict
    slope: float
    interval: Interval
    values: int
    tail: int
    warm_up: float
    hidden: float | None
    more: int | None = None
    curve: Levelling | None = None


def growth(
    values: Sequence[float], scale: Scale, blur: float = 0.0, *, may_bend: bool = True
) -> Growth:
    """Return the verdict on a series with one value for each epoch, or other equal stretch.

    ``blur`` is how far a value may lie from what it stands for, as the lowest of a few looks does
    from the lowest of all: what grows has to grow by more. With ``may_bend=False`` a rise that gets
    less is none that levels off: that is for series that are bound to bend at their end.
    """
    late = tail(values, blur)
    if late is None:
        return _too_few(values, scale)
    hidden = max(0.0, late.interval.high) + scale.resolution / (len(late.values) - 1)
    made = Growth(
        verdict="undecided",
        slope=late.slope,
        interval=late.interval,
        values=len(values),
        tail=len(late.values),
        warm_up=float(np.median(late.values)) - values[0],
        hidden=hidden,
        curve=levelling(values[1:]) if may_bend else None,
    )
    return (
        _suspected(made, values, late, scale, blur, may_bend)
        if _matters(late, scale)
        else _calm(made, late, scale)
    )


def _calm(made: Growth, late: Tail, scale: Scale) -> Growth:
    """Return the verdict where nothing is suspected: how much could hide all the same?"""
    hidden = made.hidden or 0.0
    no_trend = late.interval.low <= 0 and hidden <= scale.tolerated
    if (hidden <= scale.matters or no_trend) and made.values >= FEWEST_EPOCHS:
        return replace(made, verdict="none")
    return replace(made, more=_more(made, late, scale))


def _suspected(
    made: Growth,
    values: Sequence[float],
    late: Tail,
    scale: Scale,
    blur: float,
    may_bend: bool,
) -> Growth:
    """Return the verdict where the tail rises: does it level off, is there a second look?"""
    curve = levelling(late.values) if may_bend else None
    if curve is not None and curve.ratio ** (len(late.values) - 1) <= _BENT:
        return replace(made, verdict="levels_off", curve=curve)
    if len(values) < FEWEST_EPOCHS:
        return replace(made, more=FEWEST_EPOCHS - len(values))
    before = tail(values[:-SECOND_LOOK], blur)
    if before is None or not _matters(before, scale):
        return replace(made, more=SECOND_LOOK)
    if not _still_rises(late):
        # So many epochs later the tail begins after the bend.
        return replace(made, more=math.ceil(len(values) / 2))
    return replace(made, verdict="grows")


def _matters(late: Tail, scale: Scale) -> bool:
    return late.rises and late.slope >= scale.matters


def _still_rises(late: Tail) -> bool:
    first, middle, last = (
        float(np.median(part)) for part in np.array_split(np.asarray(late.values), 3)
    )
    return last - middle >= _STILL_RISING * (middle - first)


def _more(made: Growth, late: Tail, scale: Scale) -> int:
    """Return about how many epochs more it takes to tell.

    The width of a slope's interval shrinks with the length of the tail to the power 3/2.
    """
    length, slope = len(late.values), max(0.0, late.slope)
    if slope >= scale.matters:  # it may grow: then zero has to leave the interval
        width, target = slope - late.sure_low, slope
        falls = late.undone / slope + 1
    else:  # it may be still: then what matters has to leave it
        width = (made.hidden or 0.0) - slope
        target, falls = max(scale.matters - slope, scale.matters / 2), 0.0
    needed = max(length * (width / target) ** (2 / 3), falls)
    wanted = min(epochs_for(math.ceil(min(needed, _MOST))), _without_step(made, late, scale))
    return max(1, FEWEST_EPOCHS - made.values, wanted - made.values)


def _without_step(made: Growth, late: Tail, scale: Scale) -> int:
    """Return how many values it takes until the tail begins after its last step, if that is one."""
    steps = np.flatnonzero(np.abs(np.diff(late.values)) > scale.matters)
    if len(steps) != 1 or late.slope >= scale.matters:
        return _MOST
    return WARM_UP * (made.values - made.tail + int(steps[0]) + 1)


def _too_few(values: Sequence[float], scale: Scale) -> Growth:
    late = tuple(values[1:] if len(values) > 2 else values)
    steps = [
        (late[j] - late[i]) / (j - i) for i in range(len(late)) for j in range(i + 1, len(late))
    ]
    return Growth(
        verdict="undecided",
        slope=float(np.median(steps)) if steps else 0.0,
        interval=Interval(low=min(steps, default=0.0), high=max(steps, default=0.0)),
        values=len(values),
        tail=len(late),
        warm_up=float(np.median(late)) - values[0] if values else 0.0,
        hidden=max(0.0, *steps) + scale.resolution / (len(late) - 1) if steps else None,
        more=FEWEST_EPOCHS - len(values),
    )
