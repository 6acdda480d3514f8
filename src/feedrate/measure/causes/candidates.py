"""What a pass found: lines that rise, with what they make and what holds that."""

from __future__ import annotations

from dataclasses import dataclass, field

from feedrate.analysis.causes import Place
from feedrate.measure.causes.holding import Held
from feedrate.measure.causes.inspection import Inspection
from feedrate.memory_records import Cause, GrowthCause

_SEEN_AGAIN = 0.2
"""Growth that the first pass saw is seen again where there is this share of it or more,"""
_MUCH = 32 * 2**20
"""if it has to be so much: less may be found room for in what an allocator has kept."""


@dataclass(slots=True)
class Candidate:
    """A line that rises, and what was found of it; bytes and counts are per item.

    ``sizes`` are those of the containers when it was found, ``most`` what they take at most.
    """

    place: Place | None
    size: float
    count: float
    name: str | None = None
    chain: tuple[str, ...] = ()
    containers: Held = field(default_factory=Held)
    sizes: tuple[int, ...] = ()
    most: int | None = None
    has_graph: bool = False
    is_tensor: bool = False

    def still_grows(self) -> bool:
        """Tell whether a container has more than then; true where there is none."""
        pairs = zip(self.containers.sizes(), self.sizes, strict=False)
        return not self.sizes or any(now > then for now, then in pairs)


@dataclass(slots=True)
class Evaluation:
    """What came of the looks. `look_again` drops what did not go on growing.

    ``walked`` is the share of the new objects that was looked at. ``is_filled``: what was found is
    full by now, in a process that is known to have grown.
    """

    candidates: list[Candidate]
    span: int
    grown: int
    collected: int
    trimmed: int
    sights: int
    walked: float = 1.0
    is_filled: bool = False

    def waits(self) -> bool:
        """Tell whether a second look can say more."""
        return not self.is_filled and any(each.sizes for each in self.candidates)

    def look_again(self) -> None:
        """Drop the candidates whose containers have no more than before: things are replaced."""
        if not self.is_filled:
            self.candidates = [each for each in self.candidates if each.still_grows()]

    def inspection(
        self,
        process: str,
        *,
        epoch_items: float,
        expected: float | None,
        items: int,
        seconds: float,
        is_complete: bool,
    ) -> Inspection:
        """Return the record of it."""
        causes = tuple(
            Cause(
                process=process,
                file=each.place[0] if each.place is not None else None,
                line=each.place[1] if each.place is not None else None,
                type_name=each.name,
                count=each.count * epoch_items,
                bytes_per_epoch=each.size * epoch_items,
                held_by=each.chain,
                most=each.most,
            )
            for each in self.candidates
        )
        first = causes[0] if causes else Cause(process=process)
        traced = round(self.span * sum(each.size for each in self.candidates))
        whole = self.grown
        if expected and not (self.is_filled and causes):  # else it goes on at another rate by now
            whole = round(expected * self.span)
            if not causes and whole > _MUCH and self.grown < _SEEN_AGAIN * whole:
                whole = 0  # there was nothing to be explained this time
        growth = GrowthCause(
            process="main" if process == "main" else "worker",
            grown=whole,
            traced=traced,
            collected=self.collected,
            trimmed=min(self.trimmed, whole),
            file=first.file,
            line=first.line,
            type_name=first.type_name or "",
            count=round(first.count / epoch_items * self.span),
            holder=first.held_by[0] if first.held_by else "",
            walked=self.walked,
        )
        return Inspection(
            process=process,
            growth=growth,
            objects=causes,
            items=items,
            epoch_items=epoch_items,
            sights=self.sights,
            seconds=seconds,
            is_complete=is_complete,
        )
