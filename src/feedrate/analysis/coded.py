"""A figure that grows, with its kind and when a limit is reached."""

from __future__ import annotations

import msgspec

from feedrate.analysis.forecast import forecast
from feedrate.analysis.grown import Grown
from feedrate.analysis.stats import Interval
from feedrate.memory_records import MemoryWatch

_NEED_A_CAUSE = frozenset(
    {"memory.main_step_growth", "memory.worker_growth", "memory.other_process_growth"}
)
"""Where these level off, and nothing tells what grows, it is as likely a warm-up."""

Limit = tuple[str, int | None]
"""A limit's name, and what is left until then."""


def coded(
    watch: MemoryWatch, made: Grown | None, code: str, limit: Limit, *, each: bool = False
) -> list[Grown]:
    """Return the figure with its kind and forecast, if it grows; as it is if it does not.

    ``each`` says that the limit holds for each process, and not for all together.
    """
    if made is None:
        return []
    if not made.is_growing:
        return [made]
    share = made.processes if each else 1
    interval = Interval(low=made.interval.low / share, high=made.interval.high / share)
    if made.growth.verdict == "levels_off" and made.cause is None and code in _NEED_A_CAUSE:
        code = "memory.warm_up"
    when = None
    if made.growth.verdict == "grows" and not made.within_epoch:
        when = forecast(watch, *limit, made.per_item / share, interval)
    return [msgspec.structs.replace(made, code=code, forecast=when)]
