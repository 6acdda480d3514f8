"""What examining a target finds out, part by part, as the child sends it: frozen and without torch.

Each part is sent as soon as it is known, so that a child that dies or hangs has told what came
before. Times are seconds, sizes bytes. What was not tried is said too, with the reason.
"""

from __future__ import annotations

import msgspec

from feedrate.measure.examined.dataset import (
    LEAST_ELSEWHERE,
    LEAST_KEPT,
    MOST_FILES,
    BadItem,
    Growth,
    Handle,
    Handles,
    Items,
    Leaf,
    Objects,
    OddItem,
    Pickled,
    Randomness,
    Request,
    Stream,
    Unpicklable,
)
from feedrate.measure.examined.loop import (
    Begun,
    Broken,
    Copies,
    Loop,
    Setup,
)
from feedrate.measure.examined.trials import (
    Duel,
    Question,
    SamplerCost,
    Stale,
    Starts,
)

__all__ = [
    "LEAST_ELSEWHERE",
    "LEAST_KEPT",
    "MOST_FILES",
    "BadItem",
    "Begun",
    "Broken",
    "Copies",
    "Duel",
    "Growth",
    "Handle",
    "Handles",
    "Items",
    "Leaf",
    "Loop",
    "Objects",
    "OddItem",
    "Part",
    "Pickled",
    "Question",
    "Randomness",
    "Request",
    "SamplerCost",
    "Setup",
    "Stale",
    "Starts",
    "Stream",
    "Unpicklable",
    "Untried",
]


class Untried(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that was not tried, and why."""

    what: str
    why: str


Part = (
    Setup
    | Pickled
    | Objects
    | Handles
    | Items
    | Growth
    | BadItem
    | Loop
    | Broken
    | Duel
    | Starts
    | SamplerCost
    | Randomness
    | Stream
    | Stale
    | Begun
    | Untried
)
