"""Checks of settings by themselves: those that do nothing here, and how the loader is begun."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_trials import GAIN
from feedrate.records import Finding


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


def _not_pinned(target: TargetFacts) -> Finding | None:
    copies = target.loop.copies if target.loop is not None else None
    setup = target.setup
    if copies is None or setup is None or not copies.pageable or setup.facts.pin_memory:
        return None
    return found(
        "non_blocking_ignored",
        "info",
        f"{copies.pageable} of the {copies.count} copies of a step to the device say "
        f"non_blocking=True, and wait all the same: their {units.size(copies.bytes)} are not in "
        "pinned memory",
        why="the device copies only from pinned memory by itself; from other memory the driver "
        "first waits for the device and then copies the bytes to a place of its own",
        remedy="set pin_memory=True on the loader; feedrate tune measures what it gains",
        evidence=(
            figure("copies of a step", copies.count, "copies"),
            figure("of these non_blocking and not pinned", copies.pageable, "copies"),
            figure("their size", copies.bytes, "bytes"),
        ),
    )


def _device_unused(target: TargetFacts) -> Finding | None:
    loop, setup = target.loop, target.setup
    if loop is None or setup is None or not setup.accelerator or not loop.has_step:
        return None
    if loop.device_bytes != 0 or not loop.steps:
        return None
    step = sum(loop.steps) / len(loop.steps)
    return found(
        "gpu_unused",
        "info",
        f"a GPU is there and the step does not use it: {len(loop.steps):,} steps of "
        f"{units.seconds(step)} took no memory on it",
        why="model and batches stay on the CPU unless they are moved, and a step on the CPU hides "
        "what the loader costs",
        remedy='move both: model.to("cuda") and batch.to("cuda", non_blocking=True)',
        evidence=(
            figure("bytes on the device", 0, "bytes"),
            figure("seconds of a step", step, "s"),
        ),
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
    if begun is None or setup is None or not begun.is_often:
        return None
    length = setup.facts.length
    if length is not None and length <= 2:
        return None
    step = sum(loop.steps) / len(loop.steps) if loop is not None and loop.steps else 0.0
    total = begun.seconds + step
    gain = total / (begun.kept + step) if begun.kept is not None else None
    if gain is not None and gain < GAIN:
        return None  # nothing is lost by it
    share = begun.seconds / total if total > 0 else 0.0
    tried = "; what one iterator for all gains was not tried"
    if gain is not None and begun.kept is not None:
        tried = (
            f"; over one iterator a batch takes {units.seconds(begun.kept)}, and the loop goes "
            f"{units.ratio(gain)} as fast"
        )
    return found(
        "speed.iterator_per_step",
        "warning" if gain is not None else "info",
        f"a new iterator is made for every batch: {begun.times:,} iterators for {begun.batches:,} "
        f"batches, {units.seconds(begun.seconds)} each, which is {units.share(share)} of the time"
        + tried,
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
            *(
                [figure("seconds of a batch over one iterator", begun.kept, "s")]
                if begun.kept is not None
                else []
            ),
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


def _copies_seen(target: TargetFacts) -> str:
    copies = target.loop.copies if target.loop is not None else None
    if copies is None:
        return ""
    return f"{copies.count} in a step, {copies.asked} of them non_blocking"


CHECKS = (
    of_target("batches", _empty),
    of_target("main guard", _unguarded),
    of_target("iterators", _begun),
    of_target("batches against workers", _few_batches),
    of_target("pinning", _pinned),
    of_target("copies to the device", _not_pinned, _copies_seen),
    of_target("use of the GPU", _device_unused),
)
