"""Why each recommended setting is recommended, and the line to write."""

from __future__ import annotations

from feedrate.analysis.candidates import chosen_level, foreseen_level, moved_prefetch, restart
from feedrate.analysis.tuned import Tuned
from feedrate.analysis.wording import limit, rate, workers
from feedrate.settings import LoaderSettings
from feedrate.units import seconds

_WRITTEN = (
    "num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size",
    "in_order",
)  # fmt: skip


def line(settings: LoaderSettings) -> str:
    """Return the arguments to write: "num_workers=4, persistent_workers=True"."""
    named = ((name, getattr(settings, name)) for name in _WRITTEN)
    return ", ".join(f"{name}={value!r}" for name, value in named if value is not None)


def statements(settings: LoaderSettings) -> tuple[str, ...]:
    """Return what is to be written besides the loader's arguments."""
    threads = settings.main_threads
    return (f"torch.set_num_threads({threads})",) if threads is not None else ()


def named(settings: LoaderSettings) -> str:
    """Return all of the settings: "num_workers=4 with torch.set_num_threads(1)"."""
    return " with ".join((line(settings), *statements(settings)))


def reasons(tuned: Tuned, settings: LoaderSettings) -> tuple[str, ...]:
    """Return one sentence for each setting that is named, in the order of `line`."""
    found = [_workers(tuned, settings)]
    if settings.prefetch_factor is not None:
        why = "torch's loader deals them out in turn: with more of them a slow one holds up less"
        if moved_prefetch(tuned) is not None:
            why = "a deeper queue was faster in the ramp"
        found.append(
            f"prefetch_factor={settings.prefetch_factor}: batches take uneven time, and {why}."
        )
    if settings.pin_memory:
        found.append("pin_memory=True: copies to the accelerator are faster from pinned memory.")
    if settings.persistent_workers:
        found.append(_persistent(tuned))
    if settings.in_order is False:
        found.append(
            "in_order=False: batches take uneven time, and finished ones pass a slow one. It "
            "changes the order of batches, and with it what is trained."
        )
    if settings.batch_size is not None:
        found.append(
            f"batch_size={settings.batch_size}: more items/s, and another training: an optimizer "
            "step sees another number of items, so the learning rate may have to change, and the "
            "result has to be looked at."
        )
    if settings.main_threads is not None:
        found.append(
            f"torch.set_num_threads({settings.main_threads}): the threads of the step and the "
            "workers take the CPUs from each other. In workers torch has one thread each as it is."
        )
    return tuple(found)


def _workers(tuned: Tuned, settings: LoaderSettings) -> str:
    count = settings.num_workers
    head = f"num_workers={count}: "
    if tuned.step_bound:
        return f"{head}as it is, for the step is the limit."
    if count == 0:
        own = tuned.own
        extra = ""
        if own is not None and own.num_workers > 0:
            extra = " Leave prefetch_factor and persistent_workers out: they need workers."
        return (
            "num_workers=0: moving a batch between processes costs more than making it in the "
            f"main process.{extra}"
        )
    measured = tuned.level(count)
    best = max(tuned.levels, key=lambda each: each.rate, default=None)
    if count == foreseen_level(tuned):
        reason = tuned.choices[-1].reason
        return f"{head}the script ended before the ramp had measured them; {reason}."
    if measured is None or best is None:
        return f"{head}found by an earlier tune."
    if best.level == count:
        text = f"the fastest of {len(tuned.levels)} levels measured, {rate(best.rate)}"
        if len(tuned.levels) == 1:
            text = f"the only level measured, {rate(best.rate)}"
    elif best.rate <= (1 + tuned.procedure.tolerance) * measured.rate:
        text = (
            f"the fewest within {limit(tuned.procedure.tolerance)} of the fastest level "
            f"({rate(measured.rate)}; {rate(best.rate)} at {best.level})"
        )
    elif tuned.ramped and len(tuned.race) > 2:
        least = limit(tuned.procedure.tolerance)
        text = (
            f"{rate(measured.rate)} in the ramp, where {best.level} gave {rate(best.rate)}; on "
            f"torch's own DataLoader nothing that raced against it was {least} faster"
        )
    else:
        text = f"{rate(measured.rate)}, and no faster level was confirmed"
    return f"{head}{text}."


def _persistent(tuned: Tuned) -> str:
    cost = restart(tuned)
    if cost is None:
        return "persistent_workers=True: workers are not started again for each epoch."
    facts = tuned.facts
    method = (facts.start_method if facts is not None else None) or (
        tuned.metadata.default_start_method
    )
    how = f" by {method}" if method not in (None, "fork") else ""
    text = f"persistent_workers=True: the start of workers{how} takes {seconds(cost.start_seconds)}"
    if cost.epoch_seconds is not None:
        text += f" before each epoch of {seconds(cost.epoch_seconds)}"
    return f"{text}; changes to the dataset after its first epoch are no longer seen by them."


def chosen_words(tuned: Tuned) -> str:
    """Return what the search alone speaks for: "6 workers", "" where it found nothing."""
    chosen = chosen_level(tuned)
    return workers(chosen.level) if chosen is not None else ""
