"""What was found out about a target: its dataset and its loader."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from feedrate.measure.examined import (
    BadItem,
    Begun,
    Broken,
    Duel,
    Growth,
    Handles,
    Items,
    Loop,
    Objects,
    Part,
    Pickled,
    Question,
    Randomness,
    SamplerCost,
    Setup,
    Stale,
    Starts,
    Stream,
    Untried,
)
from feedrate.records import RunError


class TargetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a child found out about one target; ``target`` is its name for people.

    Each part is ``None`` where it was not tried or does not apply; ``untried`` says what was meant
    to be and why not. ``error`` is what ended the child before it was through. ``ranks`` training
    processes share this host; the child was one of them, alone on its share of the CPUs.
    ``others`` is the share of the CPUs that other programs took meanwhile.
    """

    target: str
    setup: Setup | None = None
    pickled: Pickled | None = None
    objects: Objects | None = None
    handles: Handles | None = None
    items: Items | None = None
    growth: Growth | None = None
    bad_item: BadItem | None = None
    loop: Loop | None = None
    broken: Broken | None = None
    starts: Starts | None = None
    sampler: SamplerCost | None = None
    randomness: Randomness | None = None
    stream: Stream | None = None
    stale: Stale | None = None
    begun: Begun | None = None
    duels: tuple[Duel, ...] = ()
    untried: tuple[Untried, ...] = ()
    error: RunError | None = None
    ranks: int = 1
    others: float | None = None

    def duel(self, question: Question) -> Duel | None:
        """Return the trial of one change, ``None`` where it was not made."""
        return next((duel for duel in self.duels if duel.question == question), None)

    @property
    def workers(self) -> int:
        """Return how many workers the loader has; 0 where that is not known."""
        return self.setup.facts.num_workers if self.setup is not None else 0

    @property
    def keeps_workers(self) -> bool:
        """Tell whether workers are kept from epoch to epoch."""
        return self.setup is not None and self.setup.facts.persistent_workers

    @property
    def start_method(self) -> str:
        """Return how its workers start, or would start."""
        if self.setup is None:
            return ""
        return self.setup.facts.start_method or self.setup.default_start_method

    @property
    def wait_share(self) -> float | None:
        """Return the share of the loop's time that it waits for batches, once it runs."""
        if self.loop is None or not self.loop.waits:
            return None
        wait, step = sum(self.loop.waits), sum(self.loop.steps)
        return wait / (wait + step) if wait + step > 0 else None


_FIELDS: dict[type, str] = {
    Setup: "setup",
    Pickled: "pickled",
    Objects: "objects",
    Handles: "handles",
    Items: "items",
    Growth: "growth",
    BadItem: "bad_item",
    Loop: "loop",
    Broken: "broken",
    Starts: "starts",
    SamplerCost: "sampler",
    Randomness: "randomness",
    Stream: "stream",
    Stale: "stale",
    Begun: "begun",
}


def collect(
    target: str,
    parts: Iterable[Part],
    error: RunError | None = None,
    *,
    ranks: int = 1,
    others: float | None = None,
) -> TargetFacts:
    """Return the parts that a child told, in one; of one kind the last."""
    single: dict[str, Part] = {}
    duels: list[Duel] = []
    untried: list[Untried] = []
    for part in parts:
        if isinstance(part, Duel):
            duels.append(part)
        elif isinstance(part, Untried):
            untried.append(part)
        else:
            single[_FIELDS[type(part)]] = part
    facts = TargetFacts(
        target=target,
        duels=tuple(duels),
        untried=tuple(untried),
        error=error,
        ranks=ranks,
        others=others,
    )
    return msgspec.structs.replace(facts, **single)
