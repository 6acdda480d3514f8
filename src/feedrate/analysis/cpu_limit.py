"""How near a loader comes to what the CPUs can give: usable CPUs over the CPU cost of an item.

The CPU ceiling of the feeding roofline: an item's CPU seconds have to be spent by somebody, the
workers or the main process, and so many CPUs have so many of them in a second.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from feedrate.analysis.conditions import Condition, finding
from feedrate.analysis.plateau import top_of
from feedrate.analysis.runs import cpu_per_item
from feedrate.analysis.stats import summary
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import figure, percent, rate, workers
from feedrate.records import Evidence, Finding
from feedrate.units import number, seconds


class ItemCost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds that an item takes in all, measured with so many workers.

    ``main`` are those of the main process: taking the batch and the step, and without workers the
    loading too. ``in_workers`` are those of the workers: loading, and sending the batch.
    """

    workers: int
    main: float
    in_workers: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.main + self.in_workers


def item_cost(point: Point) -> ItemCost | None:
    """Return the medians over the point's runs, ``None`` where CPU time was not measured."""
    costs = [
        cost
        for run in point.runs
        if (cost := cpu_per_item(run, with_workers=point.workers > 0)) is not None
    ]
    main = summary([cost[0] for cost in costs])
    in_workers = summary([cost[1] for cost in costs])
    if main is None or in_workers is None or main.median + in_workers.median <= 0:
        return None
    return ItemCost(workers=point.workers, main=main.median, in_workers=in_workers.median)


def cheapest_cost(points: Iterable[Point]) -> ItemCost | None:
    """Return what an item costs without workers, else with one; ``None`` where neither is known.

    Without workers nothing is sent and nothing competes for caches, so it is what no loader can do
    without. With one worker it has the transport in it.
    """
    few = sorted((point for point in points if point.workers <= 1), key=lambda p: p.workers)
    return next((cost for point in few if (cost := item_cost(point)) is not None), None)


def most_items(cost: ItemCost, cpus: float) -> float:
    """Return the items/s that ``cpus`` CPUs can give at most at this cost."""
    return cpus / cost.total


def near_limit(condition: Condition) -> Finding | None:
    """Say which share of the CPUs' limit a loader reaches with its fastest worker count.

    Only where loaders are told apart; what the loop reaches without workers is no loader's. Near 1
    no loader can do better on these CPUs; what is missing went into transport, waiting, or workers
    that slow each other down. Where threads share a core, or the clock changes with the load, it
    may be off either way.
    """
    cost = cheapest_cost(condition.curve)
    with_workers = [point for point in condition.curve if point.workers > 0]
    if not condition.loader or cost is None or not with_workers:
        return None
    top, cpus = top_of(with_workers), condition.metadata.usable_cpus
    most = most_items(cost, cpus)
    share = top.rate / most
    title = (
        f"the highest rate, {rate(top.rate)} with {workers(top.workers)}, reaches {percent(share)} "
        f"of what {_cpus(cpus)} can give at {seconds(cost.total)} of CPU an item {_with(cost)}"
    )
    sent = next((item_cost(point) for point in condition.curve if point.workers == 1), None)
    if cost.workers == 0 and sent is not None:
        title += f"; with 1 worker, transport included, it costs {seconds(sent.total)}"
    base = next(point for point in condition.curve if point.workers == cost.workers)
    return finding(
        condition,
        "sweep.cpu_limit",
        f"{title}.",
        based_on=(top,) if base is top else (top, base),
        evidence=[
            figure("share of the CPUs' limit", share, "share"),
            figure("the CPUs' limit", most, "items/s"),
            *_parts(cost),
            *(_parts(sent) if sent is not None and cost.workers == 0 else ()),
        ],
    )


def _cpus(count: float) -> str:
    return f"{number(count)} CPU{'' if count == 1 else 's'}"


def _with(cost: ItemCost) -> str:
    return "without workers" if cost.workers == 0 else "with 1 worker"


def _parts(cost: ItemCost) -> list[Evidence]:
    main = figure(f"main process's CPU for an item, {_with(cost)}", cost.main, "s")
    if cost.workers == 0:
        return [main]
    return [main, figure(f"the worker's CPU for an item, {_with(cost)}", cost.in_workers, "s")]
