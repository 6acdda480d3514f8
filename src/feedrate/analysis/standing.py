"""Memory that is taken at once and does not grow: queues, idle workers, views, lists of indices.

None of it is a leak, and all of it may be why a training does not fit. Each finding has the bytes
behind it, and what they were held against.
"""

from __future__ import annotations

import statistics

from feedrate import units
from feedrate.analysis.watched import trained_use, wait_share
from feedrate.analysis.wording import figure, workers
from feedrate.memory_records import MemoryWatch
from feedrate.records import Finding, LoaderFacts, Run

STANDING = frozenset(
    {
        "memory.idle_workers",
        "memory.prefetch_queue",
        "memory.sampler_list",
        "memory.view_ships_storage",
    }
)
"""The codes of what is found here."""
_QUEUE = 64 * 2**20
"""Less than this in the queue is not worth a word."""
_QUEUE_SHARE = 0.5
_NO_WAIT = 0.05
_DEFAULT_PREFETCH = 2
_FULL = 0.75
_MIDST = (0.25, 0.7)
"""Before that the queue fills, after that no more is fetched."""
_FEWEST_LOOKS = 3
_IDLE = 16 * 2**20
_INDICES = 64 * 2**20
_STORAGE = 2**20
_SEVERAL = 1.5
_SHIPPED = 4.0
"""A storage this many times as large as what is used of it is more than rounding and padding."""


def standing(run: Run, watch: MemoryWatch | None) -> tuple[Finding, ...]:
    """Return what takes memory that it need not take, without growing."""
    found = [_queue(run, watch)]
    if watch is not None:
        found += [_idle(run, watch), _views(run, watch), _indices(watch)]
    return tuple(each for each in found if each is not None)


def _idle(run: Run, watch: MemoryWatch) -> Finding | None:
    use = trained_use(run)
    kept = [
        each
        for each in run.loaders
        if each is not use and each.facts.num_workers and each.facts.persistent_workers
    ]
    if not watch.looks or not kept:
        return None
    before = {each.pid for look in watch.looks[:-1] for each in look.others}
    last = watch.looks[-1].others
    idle = [each.pid for each in last if each.pid in before and each.program is None]
    own = {
        each.pid: each.memory.uss
        for look in watch.looks
        for each in look.others
        if each.pid in idle and each.memory.uss is not None
    }
    if not own:
        return None
    # The program may have forked others that look like workers.
    count = min(len(idle), sum(each.facts.num_workers for each in kept))
    held = round(statistics.mean(own.values()) * count)  # not each may have been looked into
    if held < _IDLE:
        return None
    place = kept[0]
    where = f" (made at {place.file}:{place.line})" if place.file is not None else ""
    return Finding(
        code="memory.idle_workers",
        severity="warning",
        title=f"{workers(count)} of another loader{where} stay alive while this one trains, as "
        f"after a validation with persistent_workers: they hold {units.size(held)} of their own.",
        evidence=(
            figure("idle workers", count, ""),
            figure("their own memory (USS)", held, "bytes"),
        ),
        remedy="Set persistent_workers=False for the validation loader, or give it fewer workers.",
    )


def _queue(run: Run, watch: MemoryWatch | None) -> Finding | None:
    use = trained_use(run)
    facts: LoaderFacts | None = use.facts if use is not None else run.facts
    share = wait_share(run)
    if facts is None or watch is None or not facts.num_workers or not facts.batch_bytes:
        return None
    depth = facts.prefetch_factor or _DEFAULT_PREFETCH
    queue = facts.batch_bytes * facts.num_workers * depth
    # what is left is what it was without the queue, which is full when memory is looked at
    rooms = (
        (watch.room.memory_source, watch.room.memory),
        ("/dev/shm", watch.room.shm),
    )
    tight = [(name, left + queue) for name, left in rooms if left is not None]
    tight = [(name, whole) for name, whole in tight if queue > _QUEUE_SHARE * whole]
    is_deep = depth > _DEFAULT_PREFETCH
    is_idle = is_deep and share is not None and share < _NO_WAIT
    fill = _fill(watch, queue) if is_deep and not is_idle else None
    is_full = fill is not None and fill >= _FULL
    if queue < _QUEUE or not (tight or is_idle or is_full):
        return None
    saved = queue - facts.batch_bytes * facts.num_workers * min(depth, _DEFAULT_PREFETCH)
    evidence = [
        figure("bytes of a batch", facts.batch_bytes, "bytes"),
        figure("batches that may wait", facts.num_workers * depth, ""),
        figure("what prefetch_factor 2 saves", saved, "bytes"),
    ]
    if share is not None:
        evidence.append(figure("share of the time spent waiting", share, "share"))
    evidence += [figure(f"{name} without them", whole, "bytes") for name, whole in tight]
    if tight:
        name, whole = min(tight, key=lambda each: each[1])
        why = f"that is {units.share(queue / whole)} of the {units.size(whole)} of {name}"
    elif is_full and fill is not None:
        why = f"in the midst of an epoch {units.share(fill)} of it is taken: the workers are ahead "
        why += "of the loop, and would be with a shorter queue too"
        evidence.append(figure("share of the queue that is taken", fill, "share"))
    else:
        why = f"the loop waits only {units.share(share or 0.0)} of its time, which a shorter queue"
        why += " gives too"
    return Finding(
        code="memory.prefetch_queue",
        severity="warning",
        title=f"Batches that wait take up to {units.size(queue)}: {workers(facts.num_workers)} × "
        f"prefetch_factor {depth} × {units.size(facts.batch_bytes)} a batch; {why}.",
        evidence=tuple(evidence),
        remedy="Set prefetch_factor=2 or 1, fewer workers, or smaller batches (uint8 instead of "
        "float32).",
    )


def _fill(watch: MemoryWatch, queue: int) -> float | None:
    """Return the median share of the queue that lies in ``/dev/shm`` in the midst of epochs.

    A loop may wait a good part of its time for workers that start anew with each epoch, and a queue
    be full all the same. ``None`` where too few looks tell.
    """
    known = [(look.phase, look.shm_bytes) for look in watch.looks if look.shm_bytes is not None]
    within = [taken for phase, taken in known if _MIDST[0] <= phase <= _MIDST[1]]
    if len(within) < _FEWEST_LOOKS:
        return None
    return (statistics.median(within) - min(taken for _, taken in known)) / queue


def _views(run: Run, watch: MemoryWatch) -> Finding | None:
    """Say that views take their storages along, unless all of them look into one and the same.

    A dataset that was put into shared memory once is sent by its name, however small the view.
    """
    carried = watch.carried
    if carried is None or carried.storage_bytes < _STORAGE:
        return None
    copies = carried.storages / max(1, carried.at_once)
    if copies < _SEVERAL:
        return None
    times = carried.storage_bytes / max(1, carried.view_bytes)
    if times < _SHIPPED:
        return None
    use = trained_use(run)
    facts = use.facts if use is not None else run.facts
    count = facts.num_workers if facts is not None else watch.num_workers
    if copies > count:
        meaning = "Each batch costs its storage in shared memory, and a copy of it"
    else:
        whole = units.size(carried.storage_bytes * count)
        meaning = f"Each worker puts one into shared memory: {whole} of {workers(count)}"
    return Finding(
        code="memory.view_ships_storage",
        severity="warning",
        title=f"The tensors of a batch show {units.size(carried.view_bytes)} and carry storages of "
        f"{units.size(carried.storage_bytes)} through transport: they are views of something "
        f"{units.ratio(times)} as large. {meaning}.",
        evidence=(
            figure("bytes of the views in a batch", carried.view_bytes, "bytes"),
            figure("bytes of the storages that travel with them", carried.storage_bytes, "bytes"),
            figure("different storages in the batches looked at", carried.storages, ""),
            figure("batches looked at", carried.batches, ""),
        ),
        remedy="Return a copy of what is needed: x[a:b].clone().",
    )


def _indices(watch: MemoryWatch) -> Finding | None:
    made = watch.indices
    if made is None or made.list_bytes < _INDICES:
        return None
    return Finding(
        code="memory.sampler_list",
        severity="warning",
        title=f"The sampler makes a list of all {made.count:,} indices before the first batch of "
        f"each epoch: {units.size(made.list_bytes)} in the main process, and on each rank.",
        evidence=(
            figure("indices in the list", made.count, ""),
            figure("bytes of the list and of its numbers", made.list_bytes, "bytes"),
        ),
        remedy="Use a sampler that shuffles blocks, and within them, and yields; or draw with "
        "replacement.",
    )
