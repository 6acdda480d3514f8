"""What the second pass saw of one process: the record that a worker gives to its child."""

from __future__ import annotations

import msgspec

from feedrate.memory_records import Cause, GrowthCause


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What grows in one process, and what holds it.

    Attributes:
        process: "main" or "worker 0".
        growth: the sums over the pass, with the leading cause.
        objects: the causes, those first that bring most; () where no Python object grows.
        items: the items that the process passed meanwhile, ``sights`` the looks that were compared,
            ``seconds`` how long the pass took. ``epoch_items`` is how many it took for an epoch's.
        is_complete: it ran as long as it wanted to, and looked twice at what it found.
    """

    process: str
    growth: GrowthCause
    objects: tuple[Cause, ...] = ()
    items: int = 0
    epoch_items: float = 0.0
    sights: int = 0
    seconds: float = 0.0
    is_complete: bool = True


class Causes(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Find what grows in one process of the loop, and what holds it.

    ``process`` is "main", or "worker 0" by its number. It takes about ``seconds``, and
    as many more as an `Inspector` does. ``loader`` is the training loader's number, as the watch
    told it. ``expected`` is by how many bytes the process was seen to grow with each of its items,
    0 where that had ended by then.
    With ``memray`` it is C code that is asked for, of which memray tells.
    """

    seconds: float
    process: str = "main"
    loader: int | None = None
    expected: float | None = None
    max_batches: int | None = None
    memray: bool = False


class Caused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What came of `Causes`; sent once, also where the target ends before the time is up."""

    inspection: Inspection
