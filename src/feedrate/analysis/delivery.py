"""Whether settings deliver the same items: rates of different work cannot be compared.

Each worker of an iterable dataset has a copy of it, so without sharding every item comes once for
each worker (torch.utils.data, "Iterable-style datasets").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from feedrate.analysis.conditions import Condition, finding
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import figure, workers
from feedrate.records import Finding, LoaderFacts, Severity
from feedrate.units import number

Cause = Literal["iterable_duplicates", "drop_last_per_worker", "items_differ"]


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """Items of each complete epoch with one worker count, the same in all of them."""

    count: int
    items: int
    iterable: bool

    @property
    def streams(self) -> int:
        """How many copies of an iterable dataset are read."""
        return max(1, self.count)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Two worker counts, with equal batch size, whose epochs have different numbers of items."""

    few: Delivered
    many: Delivered
    batch_size: int | None
    cause: Cause

    @property
    def change(self) -> float:
        """The larger number of items over the smaller, minus 1."""
        low, high = sorted((self.few.items, self.many.items))
        return high / low - 1


def delivery(condition: Condition) -> Finding | None:
    """Say where epochs have different numbers of items for different worker counts, and why."""
    found = _worst(condition)
    if found is None:
        return None
    few, many = found.few, found.many
    words, remedy = _words(found)
    severity: Severity = "error" if found.cause == "iterable_duplicates" else "warning"
    return finding(
        condition,
        f"correctness.{found.cause}",
        f"with {workers(many.count)} an epoch has {number(many.items)} items, with {few.count} it "
        f"has {number(few.items)}: {words}.",
        severity=severity,
        evidence=[
            figure(f"items of an epoch with {workers(each.count)}", each.items, "items")
            for each in (few, many)
        ],
        remedy=remedy,
    )


def rates_comparable(condition: Condition) -> bool:
    """Say whether all settings do the same work, to within the tolerance."""
    found = _worst(condition)
    return found is None or found.change <= condition.tolerance


def _words(found: Difference) -> tuple[str, str]:
    if found.cause == "iterable_duplicates":
        remedy = (
            "Shard by torch.utils.data.get_worker_info(), or keep num_workers at 0 or 1; until "
            "then the rates cannot be compared."
        )
        return "every worker reads the whole stream", remedy
    if found.cause == "drop_last_per_worker":
        size = f" of {number(found.batch_size)}" if found.batch_size is not None else ""
        remedy = "Set drop_last=False, or give each worker a whole number of batches."
        return f"drop_last drops the last batch{size} of every worker where it is not full", remedy
    remedy = (
        "Find what makes the items depend on num_workers: the dataset, its sharding or the "
        "sampler; until then the rates cannot be compared."
    )
    return "the settings do not do the same work", remedy


def _worst(condition: Condition) -> Difference | None:
    sizes: dict[int | None, list[Point]] = {}
    for point in condition.points:
        sizes.setdefault(_batch_size(point), []).append(point)
    found = [
        difference
        for size, points in sizes.items()
        if (difference := _difference(_delivered(points), size)) is not None
    ]
    return max(found, key=lambda difference: difference.change, default=None)


def _delivered(points: Sequence[Point]) -> tuple[Delivered, ...]:
    """Return what each count delivers, ascending; not where its own epochs differ already."""
    items: dict[int, set[int]] = {}
    iterable: dict[int, bool] = {}
    for point in points:
        facts = _facts(point)
        iterable[point.workers] = facts is not None and facts.iterable
        for run in point.runs:
            complete = (epoch.items for epoch in run.epochs if epoch.complete)
            items.setdefault(point.workers, set()).update(complete)
    return tuple(
        Delivered(count=count, items=next(iter(seen)), iterable=iterable[count])
        for count, seen in sorted(items.items())
        if len(seen) == 1 and 0 not in seen
    )


def _difference(delivered: Sequence[Delivered], batch_size: int | None) -> Difference | None:
    """Return the largest difference from the fewest workers."""
    if not delivered:
        return None
    few = delivered[0]
    found = [
        Difference(few=few, many=many, batch_size=batch_size, cause=_cause(few, many, batch_size))
        for many in delivered[1:]
        if many.items != few.items
    ]
    return max(found, key=lambda difference: difference.change, default=None)


def _cause(few: Delivered, many: Delivered, batch_size: int | None) -> Cause:
    if not (few.iterable and many.iterable):
        return "items_differ"
    if few.items * many.streams == many.items * few.streams:
        return "iterable_duplicates"
    # every worker drops less than a batch, and what is left is whole batches
    lost = few.items - many.items
    if batch_size is not None and 0 < lost < batch_size * many.streams:
        return "items_differ" if many.items % batch_size else "drop_last_per_worker"
    return "items_differ"


def _batch_size(point: Point) -> int | None:
    facts = _facts(point)
    return facts.batch_size if facts is not None else point.benchmark.settings.batch_size


def _facts(point: Point) -> LoaderFacts | None:
    return next((run.facts for run in point.runs if run.facts is not None), None)
