"""Checks of settings by themselves: those that do nothing here, and how the loader is begun."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.records import Finding

_BEGUN_OFTEN = 4
_PER_BEGIN = 1.5


def _pinned(target: TargetFacts) -> Finding | None:
    setup = target.setup
    if setup is None or not setup.facts.pin_memory or setup.accelerator:
        return None
    return found(
        "pin_memory_ignored",
        "info",
        "pin_memory=True does nothing here: there is no accelerator",
        why="torch warns of it and goes on without",
        remedy="nothing, if this is not the machine that you train on",
    )


def _few_batches(target: TargetFacts) -> Finding | None:
    setup = target.setup
    length = setup.facts.length if setup is not None else None
    if setup is None or length is None or setup.facts.iterable or length >= target.workers:
        return None
    return found(
        "speed.few_batches",
        "info",
        f"an epoch has {length} batch{'' if length == 1 else 'es'}, fewer than its "
        f"{workers(target.workers)}: {target.workers - length} start for nothing",
        remedy=f"set num_workers={length}, or a smaller batch_size",
        evidence=(
            figure("batches of an epoch", length, "batches"),
            figure("workers", target.workers, "workers"),
        ),
    )


def _empty(target: TargetFacts) -> Finding | None:
    setup = target.setup
    if setup is None or setup.facts.length != 0 or not setup.facts.dataset_length:
        return None
    return found(
        "correctness.no_batches",
        "error",
        f"an epoch has no batch: {setup.facts.dataset_length} items are fewer than one batch of "
        f"{setup.facts.batch_size}, and drop_last is on",
        why="the loop ends at once, and nothing is trained",
        remedy="lower batch_size, or set drop_last=False",
        evidence=(figure("items", setup.facts.dataset_length, "items"),),
    )


def _begun(target: TargetFacts) -> Finding | None:
    begun, setup, loop = target.begun, target.setup, target.loop
    if begun is None or setup is None or begun.times < _BEGUN_OFTEN:
        return None
    length = setup.facts.length
    if begun.batches > _PER_BEGIN * begun.times or (length is not None and length <= 2):
        return None
    step = sum(loop.steps) / len(loop.steps) if loop is not None and loop.steps else 0.0
    total = begun.seconds + step
    share = begun.seconds / total if total > 0 else 0.0
    return found(
        "speed.iterator_per_step",
        "warning",
        f"a new iterator is made for every batch: {begun.times:,} iterators for {begun.batches:,} "
        f"batches, {units.seconds(begun.seconds)} each, which is {units.share(share)} of the time",
        why=(
            f"next(iter(loader)) starts {workers(target.workers)} and throws them away with what "
            "they have prefetched"
            if target.workers
            else "next(iter(loader)) draws the whole permutation of the sampler for one batch"
        ),
        remedy="make the iterator once (batches = iter(loader)) and call next(batches), or loop "
        "over the loader",
        evidence=(
            figure("iterators", begun.times, "iterators"),
            figure("batches", begun.batches, "batches"),
            figure("seconds from iter() to the batch", begun.seconds, "s"),
        ),
    )


def _unguarded(target: TargetFacts) -> Finding | None:
    setup = target.setup
    if setup is None or not setup.unguarded:
        return None
    return found(
        "crash.no_main_guard",
        "error" if target.workers else "info",
        f"the script has no main guard, and workers start by {target.start_method}",
        why="each worker imports the script again, and without a guard it would train there too",
        remedy='put what the script does below if __name__ == "__main__":',
    )


CHECKS = (
    of_target("batches", _empty),
    of_target("main guard", _unguarded),
    of_target("iterators", _begun),
    of_target("batches against workers", _few_batches),
    of_target("pinning", _pinned),
)
