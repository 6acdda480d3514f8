"""Which settings are worth a race against the user's own: only what measurements speak for."""

from __future__ import annotations

import math

import msgspec

from feedrate.analysis.signs import (
    UNEVEN_TURNS,
    WAITS,
    contended,
    cpus_full,
    fetches_vary,
    one_is_enough,
    short_of_memory,
    steps_on_several,
)
from feedrate.analysis.tuned import TORCH_PREFETCH, Tuned, cheapest, same_settings
from feedrate.analysis.windows import Stretch
from feedrate.settings import LoaderSettings

_NEAR = 0.9
"""No workers are tried where they should reach this share of the best level: what a level gains by
taking batches from other processes, and what that costs, is known no better."""
_CLOSE = 0.85
"""A level above the chosen one races too if it had this share of its rate in a ramp, which is of
feedrate's loader: what a worker more costs and brings is another thing with torch's."""
_ROOM = 1.1
"""And only if by the roofline it may reach this multiple of the chosen one's rate."""
_PAGEABLE_BYTES_A_SECOND = 4 * 2**30
"""What a copy from pageable memory to an accelerator moves at least; only used to leave pinning
out where even that is too short to matter."""


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """What workers that are started for each epoch cost: seconds of start and of an epoch.

    ``epoch_seconds`` is ``None`` where the loader tells no length.
    """

    start_seconds: float
    epoch_seconds: float | None


def chosen_level(tuned: Tuned) -> Stretch | None:
    """Return the level that the search chose; ``None`` where no level was measured.

    Of a ramp its last choice, unless the time was up in the midst of it and that choice is no
    good; of single runs the cheapest within the tolerance of the fastest. A level at which a worker
    died is none, though it was measured before.
    """
    sound = [each for each in tuned.levels if each.level != tuned.broken_level and each.level > 0]
    best = max((each.rate for each in sound), default=0.0)
    if tuned.choices and tuned.broken_level is None:
        last = tuned.level(tuned.choices[-1].level)
        if last in sound and last is not None:
            enough = last.rate * (1 + tuned.procedure.tolerance) >= best
            return last if enough else cheapest(sound, tuned.procedure.tolerance)
    return cheapest(sound, tuned.procedure.tolerance)


def foreseen_level(tuned: Tuned) -> int | None:
    """Return the level that the ramp jumped to, should it have ended before it measured that.

    ``None`` where more than the first level was measured: from them something can be chosen.
    """
    if not tuned.choices or tuned.broken_level is not None or len(tuned.levels) != 1:
        return None
    last = tuned.choices[-1].level
    return last if last > tuned.levels[0].level else None


def moved_prefetch(tuned: Tuned) -> int | None:
    """Return the prefetch factor that the ramp found better than the one it began with."""
    seen = [choice.prefetch for choice in tuned.choices if choice.prefetch is not None]
    return seen[-1] if seen and tuned.broken_level is None and seen[-1] != seen[0] else None


def deeper_queue(tuned: Tuned) -> int | None:
    """Return the prefetch factor that torch's loader may need more than feedrate's does.

    A ramp is of feedrate's, which gives a batch to whichever worker is free. torch's deals them out
    in turn: a worker whose batches take longer is waited for, unless the others have more to do.
    """
    chosen, own = chosen_level(tuned), tuned.own
    if not tuned.ramped or chosen is None or own is None or moved_prefetch(tuned) is not None:
        return None
    if tuned.facts is None or tuned.facts.loader == "feedrate":
        return None
    if chosen.wait_share < WAITS or not fetches_vary(chosen, UNEVEN_TURNS) or cpus_full(tuned):
        return None
    return 2 * (own.prefetch_factor or TORCH_PREFETCH)


def one_more(tuned: Tuned) -> int | None:
    """Return the level above the chosen one that torch's loader may be faster with.

    Only where the loop still waits and the roofline leaves room for it.
    """
    chosen = chosen_level(tuned)
    if not tuned.ramped or chosen is None or tuned.facts is None:
        return None
    if tuned.facts.loader == "feedrate" or chosen.wait_share < WAITS or cpus_full(tuned):
        return None
    above = (each for each in tuned.levels if each.level > chosen.level)
    near = (each.level for each in above if each.rate >= _CLOSE * chosen.rate)
    more = min((each for each in near if each != tuned.broken_level), default=None)
    room = more is not None and tuned.roof.at(more) > _ROOM * chosen.batch_rate
    return more if room else None


def restart(tuned: Tuned) -> Restart | None:
    """Return what starting workers for each epoch costs, where that is worth avoiding.

    ``None`` where the start is short against an epoch, or nothing tells.
    """
    chosen = chosen_level(tuned)
    facts = tuned.facts
    started = [
        run.startup_seconds
        for run in (*tuned.runs, *tuned.ramp_runs)
        if run.startup_seconds is not None and _had_workers(tuned, run.windows)
    ]
    if chosen is None or facts is None or tuned.use is None or not started:
        return None
    epoch = None
    if facts.length and chosen.batch_rate > 0:
        epoch = facts.length / chosen.batch_rate
    found = Restart(start_seconds=max(started), epoch_seconds=epoch)
    if epoch is not None:
        return found if found.start_seconds > tuned.procedure.tolerance * epoch else None
    return found if tuned.use.epochs > 1 else None


def zero_may_win(tuned: Tuned) -> bool:
    """Say whether the main process alone may be as fast as workers, and is not the user's own."""
    best = max((each.batch_rate for each in tuned.levels), default=0.0)
    if tuned.own is None or tuned.own.num_workers == 0 or not tuned.roof.fetch:
        return False
    return tuned.roof.at(0) >= _NEAR * best


def pinning_may_matter(tuned: Tuned) -> bool:
    """Say whether copies to an accelerator from pageable memory may take more than the tolerance.

    The copy is put at its slowest, so that what is left out is too short on every machine.
    """
    chosen, facts = chosen_level(tuned), tuned.facts
    if tuned.metadata.accelerator is None or chosen is None or facts is None or facts.pin_memory:
        return False
    copy = facts.batch_bytes / _PAGEABLE_BYTES_A_SECOND
    return copy * chosen.batch_rate > tuned.procedure.tolerance


def order_may_matter(tuned: Tuned) -> bool:
    """Say whether batches that pass a slow one may help, where their order is allowed to change."""
    chosen, facts = chosen_level(tuned), tuned.facts
    if "in_order" not in tuned.procedure.allow or chosen is None or facts is None:
        return False
    waits = chosen.wait_share >= WAITS and not cpus_full(tuned)
    return waits and fetches_vary(chosen) and facts.in_order is True


def other_batch_sizes(tuned: Tuned) -> tuple[int, ...]:
    """Return what else may be the batch size, where it is allowed to change.

    Twice as many items; half as many too where memory bounded the workers.
    """
    facts = tuned.facts
    if "batch_size" not in tuned.procedure.allow or facts is None or not facts.batch_size:
        return ()
    found = [2 * facts.batch_size]
    if short_of_memory(tuned) is not None and facts.batch_size > 1:
        found.append(facts.batch_size // 2)
    most = facts.dataset_length
    return tuple(size for size in found if most is None or size <= most)


def fewer_threads(tuned: Tuned) -> tuple[int, ...]:
    """Return how many threads the step may do better with, where it contends with the workers.

    One, and as many as there are CPUs that the chosen workers leave.
    """
    chosen, facts = chosen_level(tuned), tuned.facts
    if chosen is None or facts is None or facts.main_threads is None:
        return ()
    if not (contended(tuned) and steps_on_several(tuned)):
        return ()
    spare = math.floor(tuned.roof.cpus) - chosen.level
    return (spare, 1) if 1 < spare < facts.main_threads else (1,)


def candidates(tuned: Tuned) -> tuple[LoaderSettings, ...]:
    """Return the settings to race, the most promising first; none that the user has already.

    Settings that are not named stay as the target has them.
    """
    chosen, own = chosen_level(tuned), tuned.own
    if own is not None and tuned.step_bound:
        # only more items a step can help where the step is the limit
        here = LoaderSettings(num_workers=own.num_workers)
        return tuple(
            msgspec.structs.replace(here, batch_size=size) for size in other_batch_sizes(tuned)
        )
    if chosen is None or own is None or _is_slower(tuned, chosen):
        return ()
    first = _at(tuned, chosen.level)
    foreseen = foreseen_level(tuned)
    found = [first] if foreseen is None else [_at(tuned, foreseen), first]
    sound = [each for each in tuned.levels if each.level not in (0, tuned.broken_level)]
    fastest = max(sound, key=lambda each: each.rate)
    deeper = deeper_queue(tuned)
    if deeper is not None:
        found.append(msgspec.structs.replace(first, prefetch_factor=deeper))
    if fastest.rate > chosen.rate:
        found.append(_at(tuned, fastest.level))
    if (more := one_more(tuned)) is not None:
        found.append(_at(tuned, more))
    if zero_may_win(tuned):
        found.append(LoaderSettings(num_workers=0))
    if pinning_may_matter(tuned):
        found.append(msgspec.structs.replace(first, pin_memory=True))
    if order_may_matter(tuned):
        found.append(msgspec.structs.replace(first, in_order=False))
    threads = [msgspec.structs.replace(first, main_threads=n) for n in fewer_threads(tuned)]
    # workers that the loop was faster without have a chance only where it leaves them the CPUs
    found = [*threads, *found] if _lags(tuned, chosen) else [*found, *threads]
    found += [msgspec.structs.replace(first, batch_size=n) for n in other_batch_sizes(tuned)]
    if one_is_enough(tuned):
        found = [each for each in found if each.num_workers <= max(1, own.num_workers)]
    distinct: list[LoaderSettings] = []
    for each in found:
        if not any(same_settings(each, other, own) for other in (own, *distinct)):
            distinct.append(each)
    return tuple(distinct)


def _is_slower(tuned: Tuned, chosen: Stretch) -> bool:
    """Say whether single runs found nothing like the user's own rate, on the same loader.

    A ramp's levels are of another loader, which may be slower than torch's own.
    """
    return not tuned.ramped and _lags(tuned, chosen)


def _lags(tuned: Tuned, chosen: Stretch) -> bool:
    """Say whether a level is slower than the user's own settings were in the look."""
    if tuned.look is None:
        return False
    return chosen.rate < (1 - tuned.procedure.tolerance) * tuned.look.rate


def _at(tuned: Tuned, level: int) -> LoaderSettings:
    own = tuned.own
    assert own is not None, "levels are measured after the look"
    prefetch = moved_prefetch(tuned)
    has = own.prefetch_factor or TORCH_PREFETCH
    keeps = restart(tuned) is not None and not own.persistent_workers
    return LoaderSettings(
        num_workers=level,
        prefetch_factor=prefetch if prefetch != has else None,
        persistent_workers=True if keeps else None,
    )


def _had_workers(tuned: Tuned, windows: tuple[object, ...]) -> bool:
    """Say whether a run that these windows are of started workers; the look may have none."""
    looked = windows and tuned.look_windows and windows[0] is tuned.look_windows[0]
    return not looked or (tuned.own is not None and tuned.own.num_workers > 0)
