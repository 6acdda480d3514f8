"""What rising lines make, and what holds that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feedrate.analysis.causes import Amount, Place, Rising, Sight
from feedrate.measure.causes.candidates import Candidate
from feedrate.measure.causes.holding import Held, Holders
from feedrate.measure.causes.lines import Lines
from feedrate.measure.causes.looking import Looker
from feedrate.measure.causes.naming import frame_locals, type_name
from feedrate.measure.causes.sampling import Sample, sample_lines, user_roots
from feedrate.measure.causes.tensors import graph_bytes, graph_of, is_tensor

MOST_CAUSES = 5
HOLD_SECONDS = 1.0
_SAMPLE_SECONDS = 1.5
_TRIED = 5
"""So many objects of a line are asked what holds them, and twice as many of tensors with a graph:
some of these are held by the graph alone, and it is to be told how many."""
_MOST_OF_IT = 0.5
_NAMES_IT = 0.1
"""Objects are what a line keeps making if there is one for ten of its blocks at least."""
_MUCH = 0.3
"""For a line that brings less than this share of what the first brings, objects are not sought
as long as there are some."""


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


def explain_lines(
    lines: Sequence[Rising],
    sight: Sight,
    looker: Looker,
    surroundings: Surroundings,
    *,
    with_full: bool = False,
) -> tuple[list[Candidate], float]:
    """Return what each of the first lines makes and what holds it.

    And the share of the new objects that was looked at for it. What has a limit and has reached it
    is left out, unless ``with_full``, as where the process is known to have grown.

    ``sight`` is the look that was taken last, ``looker`` what took it.
    """
    lines = lines[:MOST_CAUSES]
    if not lines:
        return [], 1.0
    new = looker.new_objects()
    looker.close()
    samples, walked = sample_lines(
        looker.place_of,
        {
            line.place: _blocks(sight, line.place) if line.size >= _MUCH * lines[0].size else 0
            for line in lines
        },
        new,
        surroundings.roots(),
        _SAMPLE_SECONDS,
    )
    del new  # it would be found to hold them
    own = {id(kept) for sample in samples.values() for kept in sample.kept.values()}
    holders = Holders(surroundings.named, surroundings.variables(), own)
    candidates = []
    for line in lines:
        blocks = walked * _blocks(sight, line.place)  # those whose objects were looked at
        candidate = _candidate(line, blocks, samples[line.place], holders, looker)
        if with_full or not candidate.containers.is_bounded():
            candidates.append(candidate)
    return _with_holders(candidates), walked


def _candidate(
    line: Rising, blocks: float, sample: Sample, holders: Holders, looker: Looker
) -> Candidate:
    """Return what a line makes and what holds that.

    What it makes is the outermost of the objects on the way there that the line allocated: the
    record, and not the longest of its texts.
    """
    tried = sample.objects()[: 2 * _TRIED if line.graphs else _TRIED]
    found = [(each, _hold(each, sample, holders)) for each in tried]
    chains = Counter(held.chain for _, held in found if held.chain)
    if not chains:
        share = _share(sample.count, blocks)
        return Candidate(
            place=line.place,
            size=line.size,
            count=line.count * share,
            name=sample.named(),
            has_graph=line.graphs > 0,
            # a batch on its way is one too, and not what so many blocks are
            is_tensor=share >= _NAMES_IT and any(map(is_tensor, sample.objects())),
        )
    chain, times = chains.most_common(1)[0]
    held = next(held for _, held in found if held.chain == chain)
    made = next((each for each in held.way if looker.place_of(each) == line.place), held.way[-1])
    count = line.count * _share(sample.counts[type(made)], blocks)
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
        most=held.most(),
        has_graph=line.graphs > 0,
    )


def _hold(value: object, sample: Sample, holders: Holders) -> Held:
    """Return what holds one of several objects; a variable that is it holds the latest alone."""
    held = holders.find(value, sample.above, HOLD_SECONDS)
    return Held() if sample.count > 1 and len(held.way) == 1 else held


def _share(objects: int, blocks: float) -> float:
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
                each.chain, each.containers, each.sizes, each.most = (
                    other.chain,
                    other.containers,
                    other.sizes,
                    other.most,
                )
                break
    return candidates


def is_told(candidate: Candidate, lines: Lines) -> bool:
    """Tell whether a candidate says something; take a line away that says nothing.

    What torch's or Python's own lines make is told where it is the user's that holds it, or where
    it is tensors. torch itself keeps a bounded table of the storages that it has shared.
    """
    if candidate.place is None or lines.is_worth_naming(candidate.place):
        return True
    candidate.place = None
    holder = candidate.chain[0] if candidate.chain else ""
    return not holder.startswith("torch.") if holder else candidate.is_tensor
