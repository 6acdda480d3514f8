"""Processes beside the watched loader's workers: which of them stay, so that they can be judged.

Workers of another loader may live as long as the run, as those of a validation with
persistent_workers, and other programs too. What comes and goes has no memory of its own to follow:
the processes of a figure are the same ones in all its looks.
"""

from __future__ import annotations

from feedrate.analysis.figures import Figure, OfProcess
from feedrate.memory_records import MemoryLook, MemoryWatch

Pids = frozenset[int]


def staying(watch: MemoryWatch) -> dict[str | None, Pids]:
    """Return the processes that stay, by the program that they run: ``None`` for workers.

    They are there at the end, and have been since the first half. Of each kind those count that
    came first, or within an epoch of that: where iterators are kept, others come with each.
    """
    came: dict[int, tuple[int, int]] = {}
    for number, look in enumerate(watch.looks):
        for each in look.others:
            came.setdefault(each.pid, (number, look.epoch))
    kinds: dict[str | None, list[int]] = {}
    for each in watch.looks[-1].others if watch.looks else ():
        if 2 * came[each.pid][0] < len(watch.looks):
            kinds.setdefault(each.program, []).append(each.pid)
    found = {}
    for program, pids in kinds.items():
        first = min(came[pid][1] for pid in pids)
        found[program] = frozenset(pid for pid in pids if came[pid][1] <= first + 1)
    return found


def of_others(figure: OfProcess, pids: Pids) -> Figure:
    """Return the figure's mean over those other processes, where all of them are there."""

    def mean(look: MemoryLook) -> float | None:
        values = [figure(each) for each in look.others if each.pid in pids]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(pids) else None

    return mean
