"""The verdict on whose loader: torch's against feedrate's, each time with as many workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from feedrate import units
from feedrate.analysis.conditions import Condition, finding, more_runs
from feedrate.analysis.plateau import top_of
from feedrate.analysis.stats import Ratio, direction, verdict_same
from feedrate.analysis.summary import Point, compare_rates
from feedrate.analysis.wording import figure, limit, listed, median_of, rate, ratio_of, workers
from feedrate.records import Evidence, Finding

_PARTS = ("sweep", "repeated")
_OURS, _TORCHS = "feedrate's loader", "torch's"


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two benchmarks of one part that differ in the loader alone; ``gain`` is ours over torch's.

    ``each`` is the same for every repeat by itself, in which the two were neighbours in time; empty
    where not the same repeats succeeded.
    """

    torchs: Point
    ours: Point
    gain: Ratio
    each: tuple[float, ...]

    @property
    def workers(self) -> int:
        """The worker count of both."""
        return self.ours.workers


def pairs_of(points: Iterable[Point]) -> tuple[Pair, ...]:
    """Return what can be compared of a condition's points, of both loaders.

    One pair for each worker count, ascending: of several the one with the most runs.
    """
    torchs, ours = ({_key(p): p for p in points if _is(p, name)} for name in ("torch", "feedrate"))
    chosen: dict[int, Pair] = {}
    for key, point in torchs.items():
        pair = _pair(point, ours[key]) if key in ours else None
        known = chosen.get(pair.workers) if pair is not None else None
        if pair is not None and (known is None or _runs(pair) > _runs(known)):
            chosen[pair.workers] = pair
    return tuple(chosen[count] for count in sorted(chosen))


def compare_loaders(condition: Condition) -> Finding | None:
    """Say whether feedrate's loader is faster, slower or the same, at the same worker counts.

    The best known count speaks, of equals the one with the most workers, where batches come
    thickest. The condition is the whole one, with the points of both loaders.
    """
    pairs = pairs_of(condition.points)
    if not pairs:
        return None
    other_work = next((pair for pair in pairs if _differ(pair)), None)
    if other_work is not None:
        return _not_the_same_work(condition, other_work)
    main = max(pairs, key=lambda pair: (len(pair.ours.repeats), pair.workers))
    title, remedy = _words(condition, main)
    bests = [top_of(getattr(pair, side) for pair in pairs) for side in ("ours", "torchs")]
    return finding(
        condition,
        "sweep.loaders",
        f"{title}{_over_all(pairs)}{_at_best(*bests)}.",
        based_on=(main.torchs, main.ours),
        evidence=[
            *(_gain(pair) for pair in (main, *(pair for pair in pairs if pair is not main))),
            *_range(main),
            median_of(f"highest rate with {_OURS}", bests[0].rates, "items/s"),
            median_of(f"highest rate with {_TORCHS}", bests[1].rates, "items/s"),
        ],
        remedy=remedy,
    )


def _words(condition: Condition, pair: Pair) -> tuple[str, str]:
    at = f"with {workers(pair.workers)}"
    times = f"{units.ratio(pair.gain.value)} {_TORCHS} rate{_interval(pair)}"
    verdict, side = verdict_same(pair.gain, condition.tolerance), direction(pair.gain)
    again = more_runs(condition, (pair.torchs, pair.ours))
    if pair.gain.interval is None:
        return f"{_OURS} has {times} {at}, which may be chance", again
    if verdict == "same":
        most = limit(condition.tolerance)
        return f"{_OURS} makes no difference {at}: {times}, within {most}", "Keep torch's."
    if verdict == "undecided" and side == "unclear":
        return f"whether {_OURS} makes a difference {at} is undecided: {times}", again
    faster = "higher" in (verdict, side)
    unsure = ", by an undecided amount" if verdict == "undecided" else ""
    title = f"{_OURS} is {'faster' if faster else 'slower'} {at}{unsure}: {times}"
    use = "Use feedrate.DataLoader, which takes torch's arguments." if faster else "Keep torch's."
    return title, f"{use} {again}" if unsure else use


def _interval(pair: Pair) -> str:
    found = pair.gain.interval
    if found is None:
        return ""
    low, high = units.ratio(found.low), units.ratio(found.high)
    text = f"{limit(found.level)} interval {low} to {high}"
    if len(pair.each) > 1:
        low, high = units.ratio(min(pair.each)), units.ratio(max(pair.each))
        text += f"; pair by pair {low} to {high}"
    return f" ({text})"


def _over_all(pairs: Sequence[Pair]) -> str:
    """Say what all counts together range over, where there are several."""
    if len(pairs) < 2:
        return ""
    gains = [pair.gain.value for pair in pairs]
    counts = listed(pair.workers for pair in pairs)
    return f"; {units.ratio(min(gains))} to {units.ratio(max(gains))} with {counts} workers"


def _at_best(ours: Point, torchs: Point) -> str:
    return (
        f"; the highest rates are {rate(ours.rate)} with {_OURS} ({workers(ours.workers)}) and "
        f"{rate(torchs.rate)} with {_TORCHS} ({workers(torchs.workers)})"
    )


def _gain(pair: Pair) -> Evidence:
    return ratio_of(f"rate with {_OURS} over {_TORCHS}, {workers(pair.workers)}", pair.gain)


def _range(pair: Pair) -> list[Evidence]:
    if len(pair.each) < 2:
        return []
    at = workers(pair.workers)
    return [
        figure(f"lowest ratio of a pair, {at}", min(pair.each), "ratio"),
        figure(f"highest ratio of a pair, {at}", max(pair.each), "ratio"),
    ]


def _not_the_same_work(condition: Condition, pair: Pair) -> Finding:
    ours, torchs = (units.number(max(_items(p))) for p in (pair.ours, pair.torchs))
    return finding(
        condition,
        "correctness.items_differ",
        f"with {_OURS} an epoch has {ours} items and with {_TORCHS} {torchs}, both with "
        f"{workers(pair.workers)}: the two do not do the same work.",
        severity="error",
        evidence=[
            figure(f"items of an epoch with {name}", max(_items(point)), "items")
            for name, point in ((_OURS, pair.ours), (_TORCHS, pair.torchs))
        ],
        remedy="Their rates cannot be compared; find what makes the items depend on the loader.",
    )


def _differ(pair: Pair) -> bool:
    """Say whether each has as many items in every epoch, and the two have not as many."""
    ours, torchs = _items(pair.ours), _items(pair.torchs)
    return len(ours) == len(torchs) == 1 and ours != torchs


def _items(point: Point) -> set[int]:
    return {epoch.items for run in point.runs for epoch in run.epochs}


def _pair(torchs: Point, ours: Point) -> Pair | None:
    gain = compare_rates(ours, torchs)
    if gain is None or ours.rates is None or torchs.rates is None or ours.kind != torchs.kind:
        return None
    both = zip(ours.rates.values, torchs.rates.values, strict=True) if gain.paired else ()
    return Pair(torchs=torchs, ours=ours, gain=gain, each=tuple(a / b for a, b in both))


def _is(point: Point, loader: str) -> bool:
    return point.benchmark.settings.loader == loader and point.benchmark.part in _PARTS


def _key(point: Point) -> tuple[object, str]:
    settings = msgspec.structs.replace(point.benchmark.settings, loader=None)
    return settings, point.benchmark.part


def _runs(pair: Pair) -> int:
    return min(len(pair.torchs.repeats), len(pair.ours.repeats))
