"""The end of a pass: what rises, which objects these are, what holds them, and a second look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feedrate.analysis.causes import (
    Amount,
    Place,
    Rising,
    Sight,
    dropped,
    filled_lines,
    grown,
    leading,
    node_slope,
    rising_lines,
)
from feedrate.measure.causes import tracing
from feedrate.measure.causes.candidates import Candidate, Evaluation
from feedrate.measure.causes.cycles import Loop, collect
from feedrate.measure.causes.holding import Held, Holders
from feedrate.measure.causes.lines import Lines
from feedrate.measure.causes.looking import Looker, private_bytes
from feedrate.measure.causes.naming import frame_locals, type_name
from feedrate.measure.causes.sampling import Sample, sample_lines, user_roots
from feedrate.measure.causes.tensors import graph_bytes, graph_nodes, graph_of, is_tensor

_MOST_CAUSES = 5
_SAMPLE_SECONDS = 1.5
_HOLD_SECONDS = 1.0
_TRIED = 5
"""So many objects of a line are asked what holds them."""
_MOST_OF_IT = 0.5
_EXPLAINED = 0.2
_MUCH = 0.3
"""For a line that brings less than this share of what the first brings, objects are not sought
as long as there are some."""
_MOST_GRAPHS = 200
_WAITING = 64 * 1024
"""Cycles that a collection ends now and then are told where at least so many bytes wait."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the process's own code and data are."""

    lines: Lines
    named: Mapping[str, object]

    def variables(self) -> list[tuple[str, object]]:
        """Return the local variables of the user's functions that run now."""
        return list(frame_locals(self.lines.is_users))

    def roots(self) -> list[object]:
        """Return from where the user's objects can be reached."""
        local = [value for _, value in self.variables()]
        return [*self.named.values(), *user_roots(self.lines.is_users), *local]


def evaluate(
    sights: Sequence[Sight],
    everything: Sequence[Sight],
    known: float,
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
        known: by how many bytes the process is known to have grown with each item, 0 where it is
            not. What keeps growing may be far from that: then something may have filled up.
        looker: takes another one, after a collection.
        surroundings: where to look for what holds objects.
        items: how many were passed by now.
        since_collection: of these, how many since the collector last went through all objects.
    """
    rising = rising_lines(sights)
    is_filled = sum(line.size for line in rising) < _EXPLAINED * known
    if is_filled:
        rising, sights = filled_lines(everything), everything
    loop = collect(looker.place_of)
    after = looker.look(items)
    lost = dropped(everything[-1], after) if loop is not None else {}
    span = sights[-1].items - sights[0].items if sights else 0
    cycles = _cycles(rising, lost, loop, span, since_collection)
    in_cycles = {each.place for each in cycles}
    lines = [line for line in rising if line.place not in in_cycles]
    candidates = _candidates(lines, after, looker, surroundings)
    candidates = _with_graph(candidates, _growing_graph(sights, looker, surroundings))
    candidates = [each for each in candidates if _is_told(each, surroundings.lines)]
    candidates.sort(key=lambda each: -each.size)
    whole = grown(sights)
    traced = span * sum(each.size for each in (*candidates, *cycles))
    return Evaluation(
        candidates=cycles + candidates[:_MOST_CAUSES],
        span=span,
        grown=whole,
        collected=round(span * sum(each.size for each in cycles)),
        trimmed=_trimmed(looker, items) if traced < _MOST_OF_IT * whole else 0,
        sights=len(sights),
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
    for line in leading(found)[:_MOST_CAUSES]:
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


def _candidates(
    lines: Sequence[Rising], sight: Sight, looker: Looker, surroundings: Surroundings
) -> list[Candidate]:
    lines = lines[:_MOST_CAUSES]
    if not lines:
        return []
    samples = sample_lines(
        looker.place_of,
        {
            line.place: _blocks(sight, line.place) if line.size >= _MUCH * lines[0].size else 0
            for line in lines
        },
        looker.new_kinds(),
        surroundings.roots(),
        _SAMPLE_SECONDS,
    )
    own = {id(kept) for sample in samples.values() for kept in sample.kept.values()}
    holders = Holders(surroundings.named, surroundings.variables(), own)
    candidates = []
    for line in lines:
        candidate = _candidate(line, sight, samples[line.place], holders, looker)
        if candidate is not None:
            candidates.append(candidate)
    return _with_holders(candidates)


def _candidate(
    line: Rising, sight: Sight, sample: Sample, holders: Holders, looker: Looker
) -> Candidate | None:
    """Return what a line makes and what holds that; ``None`` if that is bounded.

    What it makes is the outermost of the objects on the way there that the line allocated: the
    record, and not the longest of its texts.
    """
    found = [(each, _hold(each, sample, holders)) for each in sample.objects()[:_TRIED]]
    chains = Counter(held.chain for _, held in found if held.chain)
    if not chains:
        return Candidate(
            place=line.place,
            size=line.size,
            count=line.count * _share(sample.count, _blocks(sight, line.place)),
            name=sample.named(),
            has_graph=line.graphs > 0,
            is_tensor=any(map(is_tensor, sample.objects())),
        )
    chain, times = chains.most_common(1)[0]
    held = next(held for _, held in found if held.chain == chain)
    if held.is_bounded():
        return None
    made = next((each for each in held.way if looker.place_of(each) == line.place), held.way[-1])
    count = line.count * _share(sample.counts[type(made)], _blocks(sight, line.place))
    name, size = type_name(made), line.size
    if line.graphs and graph_of(made) is not None:
        # Of the tensors of this line some are held by the graph alone, as what it saves.
        count = line.graphs * times / len(found)
        name = f"{name} with its graph"
        size = max(size, count * graph_bytes(made))
    several = sample.count > 1  # one object that becomes larger leaves its container as it is
    return Candidate(
        place=line.place,
        size=size,
        count=count,
        name=name,
        chain=chain,
        containers=Held(containers=held.containers),
        sizes=held.sizes() if several else (),
        has_graph=line.graphs > 0,
    )


def _hold(value: object, sample: Sample, holders: Holders) -> Held:
    """Return what holds one of several objects; a variable that is it holds the latest alone."""
    held = holders.find(value, sample.above, _HOLD_SECONDS)
    return Held() if sample.count > 1 and len(held.way) == 1 else held


def _share(objects: int, blocks: int) -> float:
    """Return how many objects there are for each block of memory; 1 where that is not known."""
    return min(1.0, objects / blocks) if objects and blocks else 1.0


def _blocks(sight: Sight, place: Place) -> int:
    return sight.lines.get(place, Amount(0, 0)).blocks


def _with_holders(candidates: list[Candidate]) -> list[Candidate]:
    """Give a line whose objects nothing shows the holder of those that rise in equal number.

    A tensor made of an array holds it where Python cannot see that.
    """
    for each in candidates:
        if each.chain or each.name is not None or each.count <= 0:
            continue
        for other in candidates:
            if other.chain and _MOST_OF_IT <= other.count / each.count <= 1 / _MOST_OF_IT:
                each.chain, each.containers, each.sizes = (
                    other.chain,
                    other.containers,
                    other.sizes,
                )
                break
    return candidates


def _with_graph(candidates: list[Candidate], graph: Candidate | None) -> list[Candidate]:
    """Return the candidates, with the tensors that a graph alone holds told with that graph.

    ``graph`` is the one that grows, if there is one; else it is those of the tensors that are kept.
    """
    holder = graph or next((each for each in candidates if each.chain and each.has_graph), None)
    if holder is None:
        return candidates
    rest = [each for each in candidates if each is not holder]
    own = [
        each
        for each in rest
        if (each.is_tensor and not each.chain) or (graph is not None and each.place == graph.place)
    ]
    holder.size = max(holder.size, sum(each.size for each in own))
    return [holder, *(each for each in rest if each not in own)]


def _is_told(candidate: Candidate, lines: Lines) -> bool:
    """Tell whether a candidate says something; take a line away that says nothing.

    What torch's or Python's own lines make is told where it is the user's that holds it, or where
    it is tensors. torch itself keeps a bounded table of the storages that it has shared.
    """
    if candidate.place is None or lines.is_worth_naming(candidate.place):
        return True
    candidate.place = None
    holder = candidate.chain[0] if candidate.chain else ""
    return not holder.startswith("torch.") if holder else candidate.is_tensor


def _growing_graph(
    sights: Sequence[Sight], looker: Looker, surroundings: Surroundings
) -> Candidate | None:
    """Return the tensor whose autograd graph grows from look to look, if there is one."""
    nodes = node_slope(sights)
    tensors = [each for each in looker.tensors() if graph_of(each) is not None] if nodes else []
    sizes = [graph_nodes([each]) for each in tensors[:_MOST_GRAPHS]]
    if not sizes:
        return None
    largest = tensors[sizes.index(max(sizes))]
    holders = Holders(surroundings.named, surroundings.variables(), {id(tensors)})
    held = holders.find(largest, {}, _HOLD_SECONDS)
    return Candidate(
        place=looker.place_of(largest),
        size=nodes * graph_bytes(largest) / max(sizes),
        count=0.0,
        name=f"{type_name(largest)} whose graph grows",
        chain=held.chain,
    )


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
