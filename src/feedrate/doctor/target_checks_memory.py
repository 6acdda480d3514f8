"""Checks of memory: what workers copy, what reading items keeps, and what waits in queues."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import LEAST_ELSEWHERE, LEAST_KEPT, Growth, Leaf
from feedrate.records import Finding

MUCH = 64 << 20
"""Below this, all workers together, memory is not worth a change."""
_LITTLE = 8 << 20
_STILL_GROWS = 0.5
"""The share of what an item kept early that it still keeps late, where there is no bound."""
_OF_FREE = 0.5
_SHIPPED = 4.0
_LARGE_VIEW = 1 << 20
_SAME = 0.97
_HITS = 0.5


def _copied(target: TargetFacts) -> Finding | None:
    objects, count = target.objects, target.workers
    if objects is None or not count:
        return None
    total = objects.bytes * count
    if total < _LITTLE:
        return None
    forked = target.start_method == "fork"
    where = f", most of them in {objects.path}" if objects.path else ""
    least = "" if objects.whole else "at least "
    evidence = (
        figure("Python objects of the dataset", objects.count, "objects"),
        figure("their size", objects.bytes, "bytes"),
        figure("for all workers", total, "bytes"),
    )
    if forked and total < MUCH:
        return found(
            "cow_small",
            "info",
            f"workers copy {least}{units.size(objects.bytes)} of Python objects each by reading "
            "them, which is little",
            evidence=evidence,
        )
    if total < MUCH:
        return None
    title = (
        f"the dataset holds {least}{objects.count:,} Python objects of "
        f"{units.size(objects.bytes)}{where}"
    )
    remedy = (
        "keep them in flat arrays (feedrate.SharedList takes a list of anything), so that there is "
        "nothing to count references of"
    )
    if forked:
        return found(
            "memory.cow_growth",
            "warning",
            f"{title}: {workers(count)} copy up to {units.size(total)} by reading the items "
            "(copy-on-write)",
            why="reading a Python object writes its count of references, and a page that is "
            "written is copied; memory rises over the first epoch, to this bound",
            remedy=remedy,
            evidence=evidence,
        )
    return found(
        "memory.spawn_copies",
        "info",
        f"{title}: each of {workers(count)} gets its own copy, {units.size(total)} in all",
        why=f"workers that start by {target.start_method} are sent the dataset whole",
        remedy=remedy,
        evidence=evidence,
    )


def _copied_seen(target: TargetFacts) -> str:
    objects = target.objects
    if objects is None or not objects.whole:
        return ""
    return f"{objects.count:,} Python objects of {units.size(objects.bytes)} in the dataset"


def _kept(facts: DoctorFacts) -> Finding | None:
    target = facts.target
    growth = target.growth if target is not None else None
    if target is None or growth is None or growth.early <= 0:
        return None
    if _is_bounded(growth):
        return None
    count = max(1, target.workers)
    length = target.setup.facts.dataset_length if target.setup is not None else None
    whole = growth.late * max(length or 0, growth.items)
    total = whole * count
    short = total > _OF_FREE * facts.machine.host.memory.free
    evidence = (
        figure("kept for each item", growth.late, "bytes"),
        figure("items read", growth.items, "items"),
        figure("for all items and workers", total, "bytes"),
    )
    if target.workers and not target.keeps_workers and growth.again < _HITS * growth.first:
        return _dies(growth, whole)
    if total < MUCH and not short:
        return None
    held = (
        f"a cache in the dataset, {growth.path}," if growth.path else "memory outside the dataset"
    )
    return found(
        "memory.dataset_cache_growth" if growth.path else "memory.worker_growth",
        "warning" if target.workers or short else "info",
        f"{held} grows by {units.size(growth.late)} an item and had no bound after "
        f"{growth.items:,} items: {units.size(whole)} for all items"
        + (f", per worker; {units.size(total)} for {workers(count)}" if target.workers else ""),
        why="with shuffling every worker sees every item in the end, so each holds the whole"
        if target.workers
        else "the process holds all items in the end",
        remedy="bound the cache (functools.lru_cache(maxsize=...), an OrderedDict), or share one "
        "among workers: a tensor after share_memory_(), or a file",
        evidence=evidence,
    )


def _dies(growth: Growth, whole: float) -> Finding:
    name = growth.path or "a cache"
    return found(
        "speed.cache_never_hits",
        "warning",
        f"{name} is filled anew in every epoch: it ends with its workers "
        f"(persistent_workers=False), and an item from it takes {units.seconds(growth.again)} "
        f"instead of {units.seconds(growth.first)}",
        why="each epoch starts new workers, with the dataset as the main process has it",
        remedy="set persistent_workers=True (each worker then holds up to "
        f"{units.size(whole)}), or fill the cache before the workers start",
        evidence=(
            figure("seconds of an item, first time", growth.first, "s"),
            figure("seconds of an item, again", growth.again, "s"),
            figure("kept for each item", growth.late, "bytes"),
        ),
    )


def _is_bounded(growth: Growth) -> bool:
    """Tell whether what grew had stopped to do so before all was read."""
    return growth.late < _STILL_GROWS * growth.early or growth.late < 1024


def _kept_seen(facts: DoctorFacts) -> str:
    target = facts.target
    if target is None or target.items is None:
        return ""
    growth = target.growth
    if growth is None:
        return (
            f"reading {target.items.count:,} items kept less than {units.size(LEAST_KEPT)} an item "
            f"in a container, and less than {units.size(LEAST_ELSEWHERE)} elsewhere"
        )
    if _is_bounded(growth):
        return f"stopped growing at {units.size(max(0, growth.bytes))} after {growth.items:,} items"
    return f"{units.size(growth.late)} an item are kept, which is little for all items"


def _descriptors(target: TargetFacts) -> Finding | None:
    items = target.items
    if items is None or items.descriptors < 0.5 * items.count or items.count < 8:
        return None
    each = items.descriptors / items.count
    return found(
        "memory.fd_growth_worker" if target.workers else "memory.fd_growth_main",
        "warning",
        f"reading {items.count:,} items left {items.descriptors:,} more files open: "
        f"{units.number(round(each, 2))} open files an item, opened in __getitem__"
        + (", in each worker" if target.workers else ""),
        why="at the limit (ulimit -n) nothing can be opened any more, and no batch can be sent",
        remedy="close each file after reading (with open(...) as f:), or keep a bounded pool",
        evidence=(
            figure("descriptors more", items.descriptors, "descriptors"),
            figure("items read", items.count, "items"),
        ),
    )


def _descriptors_seen(target: TargetFacts) -> str:
    return "" if target.items is None else f"{max(0, target.items.descriptors)} more after reading"


def _views(target: TargetFacts) -> Finding | None:
    loop = target.loop
    if loop is None or not target.workers:
        return None
    views = [leaf for leaf in loop.leaves if _is_view(leaf)]
    if not views:
        return None
    worst = max(views, key=lambda leaf: leaf.storage_bytes)
    return found(
        "memory.view_ships_storage",
        "warning",
        f"{worst.path} is a view of {units.size(worst.bytes)} that carries its whole storage of "
        f"{units.size(worst.storage_bytes)} through transport",
        why="a tensor that is sent to another process takes the storage along that it looks into",
        remedy="return a copy of what is needed (x[...].clone())",
        evidence=(
            figure("size of the view", worst.bytes, "bytes"),
            figure("size of its storage", worst.storage_bytes, "bytes"),
        ),
    )


def _is_view(leaf: Leaf) -> bool:
    large = leaf.storage_bytes >= _LARGE_VIEW
    return leaf.kind == "tensor" and large and leaf.storage_bytes > _SHIPPED * max(1, leaf.bytes)


def _sampler(target: TargetFacts) -> Finding | None:
    cost = target.sampler
    if cost is None or cost.bytes < MUCH:
        return None
    draws = target.setup.draws if target.setup is not None else None
    return found(
        "memory.sampler_list",
        "warning",
        f"the sampler makes all {draws or 0:,} indices before the first batch: "
        f"{units.size(cost.bytes)} and {units.seconds(cost.seconds)}, each epoch and on each rank",
        why="RandomSampler turns its permutation into a Python list",
        remedy="shuffle blocks, and within them (a sampler that yields), or draw with replacement",
        evidence=(
            figure("memory of the indices", cost.bytes, "bytes"),
            figure("seconds to the first index", cost.seconds, "s"),
        ),
    )


def _queue(target: TargetFacts) -> Finding | None:
    duel, loop, setup = target.duel("less_prefetch"), target.loop, target.setup
    if duel is None or loop is None or setup is None or duel.gain < _SAME:
        return None
    prefetch = setup.facts.prefetch_factor or 2
    waiting = loop.batch_bytes * target.workers * prefetch
    return found(
        "memory.prefetch_queue",
        "warning",
        f"up to {waiting / 2**20:.0f} MB of finished batches wait: {workers(target.workers)} × "
        f"prefetch_factor {prefetch} × {units.size(loop.batch_bytes)}; with prefetch_factor="
        f"{duel.value} the loop is as fast ({units.ratio(duel.gain)})",
        why="a deep queue only evens out batches that take uneven time",
        remedy=f"set prefetch_factor={duel.value}",
        evidence=(
            figure("bytes of waiting batches", waiting, "bytes"),
            figure(f"rate with prefetch_factor={duel.value} over its own", duel.gain, "ratio"),
        ),
    )


CHECKS = (
    of_target("Python objects", _copied, _copied_seen),
    Check("what reading items keeps", _kept, _kept_seen),
    of_target("open files", _descriptors, _descriptors_seen),
    of_target("views", _views),
    of_target("sampler", _sampler),
    of_target("queue of batches", _queue),
)
