"""Settings that ran against the user's own: which of them wins, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from feedrate.analysis.stats import ENOUGH_RUNS, Ratio, direction, ratio, surely_higher
from feedrate.records import Benchmark, RunError
from feedrate.settings import LoaderSettings

_FAR = 0.2
"""A gain of this share in each of two rounds is no matter of noise, which is a few percent."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the race: its rate in items/s in each round that it finished, by repeat.

    ``differs`` says that its epochs have another number of batches than the user's own, so that
    the rates cannot be compared: `feedrate.analysis.delivery` has the causes.
    """

    benchmark: Benchmark
    own: bool
    rates: dict[int, float]
    error: RunError | None = None
    differs: bool = False

    @property
    def settings(self) -> LoaderSettings:
        """What was run."""
        return self.benchmark.settings

    @property
    def rate(self) -> float:
        """The median of the rates; 0 where no round was finished."""
        return median(self.rates.values()) if self.rates else 0.0

    @property
    def seconds(self) -> float:
        """What a run of it takes, the mean of those that it had."""
        known = [run.seconds for run in self.benchmark.runs if run.seconds is not None]
        return sum(known) / len(known) if known else 0.0

    @property
    def sound(self) -> bool:
        """Whether it may go on: it neither failed nor does other work, and was not left out."""
        return self.error is None and not self.differs and self.benchmark.skipped is None


class Duel(msgspec.Struct, frozen=True, kw_only=True):
    """The winner of the race against the user's own settings, by the rounds that both finished."""

    winner: Entry
    own: Entry
    ratio: Ratio
    rounds: int

    @property
    def beyond_doubt(self) -> bool:
        """Whether more rounds would change nothing."""
        return beyond_doubt(self.winner, self.own)

    @property
    def surely_faster(self) -> bool:
        """Whether the winner is faster, as far as so many rounds can show."""
        if self.rounds >= ENOUGH_RUNS or self.beyond_doubt:
            return direction(self.ratio) == "higher"
        both = sorted(self.winner.rates.keys() & self.own.rates.keys())
        return surely_higher(
            [self.winner.rates[k] for k in both], [self.own.rates[k] for k in both]
        )


def winner(entries: Sequence[Entry], tolerance: float) -> Entry | None:
    """Return the cheapest candidate within the tolerance of the fastest; not the user's own.

    Of those that ran the most rounds: one that left earlier has lost already.
    """
    known = [each for each in entries if not each.own and each.rates and each.sound]
    rounds = max((len(each.rates) for each in known), default=0)
    known = [each for each in known if len(each.rates) == rounds]
    best = max((each.rate for each in known), default=0.0)
    enough = [each for each in known if each.rate * (1 + tolerance) >= best]
    return min(enough, key=lambda each: expense(each.settings), default=None)


def duel(entries: Sequence[Entry], tolerance: float) -> Duel | None:
    """Return how the winner compares with the user's own settings; ``None`` where one is missing.

    Paired: round k of both was measured at nearly the same time.
    """
    best = winner(entries, tolerance)
    own = next((each for each in entries if each.own), None)
    if best is None or own is None:
        return None
    both = sorted(best.rates.keys() & own.rates.keys())
    if not both:
        return None
    return Duel(
        winner=best,
        own=own,
        ratio=ratio([best.rates[k] for k in both], [own.rates[k] for k in both], paired=True),
        rounds=len(both),
    )


def beyond_doubt(one: Entry, own: Entry) -> bool:
    """Say whether each round, of two at least, shows a gain that more rounds could not undo."""
    both = one.rates.keys() & own.rates.keys()
    return len(both) >= 2 and all(one.rates[k] >= (1 + _FAR) * own.rates[k] for k in both)


def expense(settings: LoaderSettings) -> tuple[bool, bool, int, int, bool, bool, bool]:
    """Order settings by what they cost: training that changes, workers, batches that wait."""
    return (
        settings.batch_size is not None,
        settings.in_order is False,
        settings.num_workers,
        settings.prefetch_factor or 0,
        bool(settings.pin_memory),
        bool(settings.persistent_workers),
        settings.main_threads is not None,
    )
