"""Autograd graphs that grow, and the tensors that only a graph holds."""

from __future__ import annotations

from collections.abc import Sequence

from feedrate.analysis.causes import Sight, node_slope
from feedrate.measure.causes.candidates import Candidate
from feedrate.measure.causes.explaining import HOLD_SECONDS, Surroundings
from feedrate.measure.causes.holding import Holders
from feedrate.measure.causes.looking import Looker
from feedrate.measure.causes.naming import type_name
from feedrate.measure.causes.tensors import graph_bytes, graph_nodes, graph_of

_MOST_GRAPHS = 200


def growing_graph(
    sights: Sequence[Sight], looker: Looker, surroundings: Surroundings
) -> Candidate | None:
    """Return the tensor whose autograd graph grows from look to look, if there is one."""
    nodes = node_slope(sights)
    tensors = [each for each in looker.tensors() if graph_of(each) is not None] if nodes else []
    newest = tensors[: -_MOST_GRAPHS - 1 : -1]
    sizes = [graph_nodes([each]) for each in newest]
    if not sizes:
        return None
    largest = newest[sizes.index(max(sizes))]
    holders = Holders(surroundings.named, surroundings.variables(), {id(tensors), id(newest)})
    held = holders.find(largest, {}, HOLD_SECONDS)
    return Candidate(
        place=looker.place_of(largest),
        size=nodes * graph_bytes(largest) / max(sizes),
        count=0.0,
        name=f"{type_name(largest)} whose graph grows",
        chain=held.chain,
    )


def with_graph(candidates: list[Candidate], graph: Candidate | None) -> list[Candidate]:
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
