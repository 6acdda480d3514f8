"""Signs in a tune's windows that a setting could matter, or that none can."""

from __future__ import annotations

from feedrate.analysis.tuned import Tuned
from feedrate.analysis.windows import Stretch
from feedrate.records import Choice

WAITS = 0.1
"""A loop that waits a smaller share of its time has little to gain from what limits the loader."""
UNEVEN = 0.5
"""The coefficient of variation of fetch times above which a slow batch holds others back."""
UNEVEN_TURNS = 0.2
"""The same, above which workers that are given batches in turn are not done in turn."""
_RISEN = 1.3
"""How many times the CPU seconds of a batch have to be those of the lowest level to be no noise."""
_SEVERAL = 1.2
"""CPU seconds in a second of the step, beyond which more than one thread takes part in it."""
IDLE_CPUS = 0.7
"""The share of the CPUs below which they are not what is full."""

_MEMORY_WORDS = ("memory is short", "/dev/shm is short", "the budget of")
"""How the ramp's reasons begin where the budget held no more workers."""


def fetches_vary(stretch: Stretch, least: float = UNEVEN) -> bool:
    """Say whether fetch times vary so much that a slow batch holds others back.

    ``least`` is their coefficient of variation from which on they do.
    """
    return (
        stretch.level > 1
        and stretch.fetch_variation is not None
        and stretch.fetch_variation >= least
    )


def short_of_memory(tuned: Tuned) -> Choice | None:
    """Return the last choice of the ramp that memory bounded; ``None`` where none was."""
    short = [c for c in tuned.choices if c.reason.startswith(_MEMORY_WORDS)]
    return short[-1] if short else None


def contended(tuned: Tuned) -> bool:
    """Say whether workers take from each other: more of them slower, or batches dearer in CPU."""
    fed = [each for each in tuned.levels if each.level > 0]
    if len(fed) < 2:
        return False
    low, high = fed[0], fed[-1]
    best = max(each.rate for each in fed)
    slower = high.rate * (1 + 2 * tuned.procedure.tolerance) < best
    dearer = low.cpu is not None and high.cpu is not None and high.cpu > _RISEN * low.cpu
    return slower or dearer


def steps_on_several(tuned: Tuned) -> bool:
    """Say whether torch's threads compute the step, and not the main thread alone."""
    threads = tuned.facts.main_threads if tuned.facts is not None else None
    alone = tuned.cached
    if threads is None or threads < 2 or alone is None or alone.main_cpu is None:
        return False
    return alone.main_cpu > _SEVERAL * alone.step


def cpus_full(tuned: Tuned) -> bool:
    """Say whether the CPUs are full at the lowest level already, as a quota makes them.

    Or with the user's own workers. What a worker does not compute there is time in which it was not
    let run, and no storage's.
    """
    seen = [next((each for each in tuned.levels if each.level > 0), None)]
    if tuned.own is not None and tuned.own.num_workers > 0:
        seen.append(tuned.look)
    return any(
        each is not None
        and each.cpu is not None
        and each.batch_rate * each.cpu > IDLE_CPUS * tuned.roof.cpus
        for each in seen
    )


def one_is_enough(tuned: Tuned) -> bool:
    """Say whether one worker can use all of the CPUs, and does: there is one of them at most."""
    return tuned.roof.cpus <= 1 and cpus_full(tuned)
