"""The verdict on start methods: what each costs before the first batch, and whether it pays."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from feedrate.analysis.conditions import Condition, finding
from feedrate.analysis.costs import costs, paid_back_from
from feedrate.analysis.stats import Summary, direction, ratio, verdict_same
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import figure, listed, median_of, workers
from feedrate.records import Evidence, Finding
from feedrate.units import seconds


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """One start method of several that differ in nothing else, with its start-up."""

    method: str
    point: Point
    startup: Summary


def start_methods(condition: Condition) -> Finding | None:
    """Say what each start method takes to the first batch, and what the dearer ones give for it.

    Of all worker counts that were measured with several methods the plateau's start is taken if it
    is one of them, else the fastest. Where workers are started again for each epoch, so are the
    costs.
    """
    rivals = _chosen(condition)
    if not rivals:
        return None
    cheap, *dearer = rivals
    dearer = [each for each in dearer if _ratio(each, cheap) > 1 + condition.tolerance]
    shown = listed(f"{seconds(each.startup.median)} by {each.method}" for each in rivals)
    title = f"with {workers(cheap.point.workers)} the first batch comes after {shown}"
    evidence: list[Evidence | None] = []
    for each in rivals:
        cost = costs(each.point)
        evidence += [
            median_of(f"start-up by {each.method}", each.startup, "s"),
            median_of(f"later epoch by {each.method}", cost.later if cost else None, "s"),
        ]
    if not dearer:
        title += ": no difference that matters"
    paid: list[int] = []
    for each in dearer:
        said, epoch = _worth(condition, each, cheap)
        title += said
        if epoch is not None:
            paid.append(epoch)
            evidence.append(figure(f"{each.method} paid back from epoch", epoch, "epoch"))
    return finding(
        condition,
        "sweep.start_method",
        f"{title}.",
        based_on=[each.point for each in rivals],
        evidence=evidence,
        remedy=_remedy(cheap, dearer, paid),
    )


def _remedy(cheap: Started, dearer: Sequence[Started], paid: Sequence[int]) -> str:
    if not dearer or cheap.method != "fork":
        return ""
    use = f"For fewer epochs than {min(paid)} use" if paid else "Use"
    names = " or ".join(each.method for each in dearer)
    return (
        f'{use} multiprocessing_context="fork", unless the program needs {names}: fork does not go '
        "with threads, or with CUDA used before."
    )


def _worth(condition: Condition, dear: Started, cheap: Started) -> tuple[str, int | None]:
    """Return what the longer start gives, as the rest of the title, and the epoch it is paid by."""
    more = seconds(dear.startup.median - cheap.startup.median)
    each_time = " at every epoch" if dear.point.kind == "restarted" else ""
    cost, other = costs(dear.point), costs(cheap.point)
    head = f"; the {more} more by {dear.method}{each_time}"
    if cost is None or other is None or cost.later is None or other.later is None:
        return f"{head}: whether later epochs pay that back was not measured", None
    if min(cost.later.low, other.later.low) <= 0:
        return head, None
    gain = ratio(other.later.values, cost.later.values, paired=cost.repeats == other.repeats)
    figures = f"({seconds(cost.later.median)} instead of {seconds(other.later.median)})"
    if gain.interval is None:
        faster = gain.value > 1 + condition.tolerance
    else:
        faster = direction(gain) == "higher" and verdict_same(gain, condition.tolerance) != "same"
    epoch = paid_back_from(cost, other) if faster else None
    if epoch is None:
        return f"{head} is never paid back: later epochs are not faster {figures}", None
    return (
        f"{head} is paid back by the end of epoch {epoch}: later epochs are faster {figures}",
        epoch,
    )


def _ratio(one: Started, other: Started) -> float:
    low = other.startup.median
    return one.startup.median / low if low > 0 else 1.0


def _chosen(condition: Condition) -> Sequence[Started]:
    """Return the points that differ in the start method alone, the quickest start first."""
    groups: dict[tuple[object, str], list[Started]] = {}
    for point in condition.points:
        settings = point.benchmark.settings
        if settings.start_method is None or point.startup is None or point.rates is None:
            continue
        apart = msgspec.structs.replace(settings, start_method=None)
        started = Started(method=settings.start_method, point=point, startup=point.startup)
        groups.setdefault((apart, point.benchmark.part), []).append(started)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return ()
    choice = condition.choice

    def preference(group: list[Started]) -> tuple[bool, float]:
        is_choice = choice is not None and group[0].point.workers == choice.workers
        return is_choice, max(each.point.rate for each in group)

    best = max(several, key=preference)
    return sorted(best, key=lambda each: each.startup.median)
