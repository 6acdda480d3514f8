"""The end of a pass: what rises, which objects these are, what holds them, and a second look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from feedrate.analysis.causes import (
    Amount,
    Place,
    Rising,
    Sight,
    dropped,
    filled_lines,
    grown,
    leading,
    rising_lines,
)
from feedrate.measure.causes import tracing
from feedrate.measure.causes.candidates import Candidate, Evaluation
from feedrate.measure.causes.cycles import Loop, collect
from feedrate.measure.causes.explaining import MOST_CAUSES, Surroundings, explain_lines, is_told
from feedrate.measure.causes.graphs import growing_graph, with_graph
from feedrate.measure.causes.looking import Looker, private_bytes

_MOST_OF_IT = 0.5
_EXPLAINED = 0.2
_WAITING = 64 * 1024
"""Cycles that a collection ends now and then are told where at least so many bytes wait."""


def evaluate(
    sights: Sequence[Sight],
    everything: Sequence[Sight],
    known: float | None,
    looker: Looker,
    surroundings: Surroundings,
    *,
    items: int,
    since_collection: int,
) -> Evaluation:
    """Say what keeps growing from look to look, and what holds it.

    Args:
        sights: the looks that can be compared.
        everything: all looks, the one that was taken just now the last.
        known: by how many bytes the process is known to have grown with each item, 0 where that
            has ended by now, ``None`` where it is not known. What keeps growing may be far from
            that: then something may have filled up.
        looker: takes another one, after a collection.
        surroundings: where to look for what holds objects.
        items: how many were passed by now.
        since_collection: of these, how many since the collector last went through all objects.
    """
    rising = rising_lines(sights)
    found = sum(line.size for line in rising)
    is_filled = known is not None and (not rising or found < _EXPLAINED * known)
    if is_filled:
        rising, sights = filled_lines(everything), everything
    loop = collect(looker.place_of)
    after = looker.look(items)
    lost = dropped(everything[-1], after) if loop is not None else {}
    span = sights[-1].items - sights[0].items if sights else 0
    cycles = _cycles(rising, lost, loop, span, since_collection)
    in_cycles = {each.place for each in cycles}
    lines = [line for line in rising if line.place not in in_cycles]
    candidates, walked = explain_lines(lines, after, looker, surroundings, with_full=bool(known))
    looker.close()
    candidates = with_graph(candidates, growing_graph(sights, looker, surroundings))
    candidates = [each for each in candidates if is_told(each, surroundings.lines)]
    candidates.sort(key=lambda each: -each.size)
    whole = grown(sights)
    traced = span * sum(each.size for each in (*candidates, *cycles))
    return Evaluation(
        candidates=cycles + candidates[:MOST_CAUSES],
        span=span,
        grown=whole,
        collected=round(span * sum(each.size for each in cycles)),
        trimmed=_trimmed(looker, items) if traced < _MOST_OF_IT * whole else 0,
        sights=len(sights),
        walked=walked,
        is_filled=is_filled,
    )


def _cycles(
    rising: Sequence[Rising],
    lost: Mapping[Place, Amount],
    loop: Loop | None,
    span: int,
    since_collection: int,
) -> list[Candidate]:
    """Return the lines whose growth a collection gave back.

    Those too that do not rise from look to look because the collector comes now and then.
    """
    if loop is None:
        return []
    rates = {line.place: line for line in rising}
    found = []
    for place, amount in lost.items():
        line = rates.get(place)
        if line is not None and amount.size >= _MOST_OF_IT * line.size * span:
            found.append(line)
        elif line is None and amount.size >= _WAITING and since_collection:
            size, count = amount.size / since_collection, amount.blocks / since_collection
            found.append(Rising(place=place, size=size, count=count))
    candidates = []
    for line in leading(found)[:MOST_CAUSES]:
        name, objects = loop.count(line.place)
        blocks = lost[line.place].blocks
        share = objects / blocks if objects and blocks else 1.0
        candidates.append(
            Candidate(
                place=line.place,
                size=line.size,
                count=line.count * min(1.0, share),
                name=name,
                chain=("reference cycle", *loop.way),
            )
        )
    return candidates


def _trimmed(looker: Looker, items: int) -> int:
    """Return what the C library gives back of the pages that it kept, without those of a look."""
    first = _given_back()
    looker.look(items)
    return max(0, first - _given_back())


def _given_back() -> int:
    before = private_bytes()
    if before is None or not tracing.trim():
        return 0
    return max(0, before - (private_bytes() or before))
