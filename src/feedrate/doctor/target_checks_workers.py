"""Checks of how many workers there are, each of which stands on a trial."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_trials import evidence_of, faster, gain_of
from feedrate.records import Finding

_SAME, _STARTS = 0.1, 1.5
"""As fast; and faster by what fewer workers take less to start."""
_IDLE = 0.5
"""The share of an item's time on the CPU below which it waits."""
_QUEUED = 2.0
"""How many times longer an item takes with all workers than alone, where they share a limit."""
_WAITS = 0.3
_MANY, _COMPUTES = 4.0, 0.8
"""Workers for each usable CPU, and an item's time on the CPU, above which they are too many."""


def _too_many(target: TargetFacts) -> Finding | None:
    duel, setup = faster(target, "fewer"), target.setup
    if setup is None or _shared_limit(target) is not None:
        return None
    if duel is None:
        return _many_seen(target)
    cpus = units.number(setup.cpus)
    evidence = evidence_of(duel, f"with num_workers={duel.value}")
    ranks = max(setup.ranks, target.ranks)
    if ranks > 1:
        total = ranks * target.workers
        return found(
            "speed.ddp_oversubscription",
            "warning",
            f"num_workers is for each rank: {ranks} ranks (LOCAL_WORLD_SIZE) × "
            f"{target.workers} = {total} workers on this host; on one rank's share of the CPUs "
            f"num_workers={duel.value} gives {gain_of(duel)}",
            why="every rank starts its own workers, and they compete for the same CPUs",
            remedy=f"set num_workers={duel.value}: usable CPUs ÷ LOCAL_WORLD_SIZE",
            evidence=(*evidence, figure("workers on this host", total, "workers")),
        )
    return found(
        "speed.too_many_workers",
        "warning",
        f"{workers(target.workers)} for {cpus} usable CPUs: num_workers={duel.value} gives "
        f"{gain_of(duel)}",
        why="more workers than CPUs compete for them, and each takes time to start and memory",
        remedy=f"set num_workers={duel.value} (os.cpu_count() knows no container's limit)",
        evidence=(*evidence, figure("usable CPUs", setup.cpus, "CPUs")),
    )


def _many_seen(target: TargetFacts) -> Finding | None:
    """Say that workers are many times the CPUs, where what fewer would give was not tried."""
    items, setup = target.items, target.setup
    if setup is None or target.duel("fewer") is not None or target.loop is None:
        return None
    if items is None or items.cpu_share < _COMPUTES or target.workers < _MANY * setup.cpus:
        return None
    return found(
        "speed.too_many_workers",
        "info",
        f"{workers(target.workers)} for {units.number(setup.cpus)} usable CPUs, which an item "
        f"uses for {units.share(items.cpu_share)} of its time; what fewer would give was not tried",
        why="more workers than CPUs compete for them, and each takes time to start and memory",
        remedy=f"try num_workers={max(1, int(setup.cpus))}: feedrate tune measures it",
        evidence=(
            figure("usable CPUs", setup.cpus, "CPUs"),
            figure("workers", target.workers, "workers"),
            figure("CPU share of an item", items.cpu_share, "share"),
        ),
    )


def _shared_limit(target: TargetFacts) -> Finding | None:
    items = target.items
    if items is None or items.cpu_share > _IDLE:
        return None
    fewer, more = target.duel("fewer"), target.duel("more")
    if fewer is not None and 1 - _SAME <= fewer.gain <= _STARTS:
        low, high, duel = fewer.value, target.workers, fewer
        rate = sum(fewer.own) / len(fewer.own)
    elif more is not None and more.gain >= 1 - _SAME and faster(target, "more") is None:
        low, high, duel = target.workers, more.value, more
        rate = sum(more.other) / len(more.other)
    else:
        return None
    taken = high / max(rate, 1e-9)
    if taken < _QUEUED * items.median:
        return None
    return found(
        "speed.shared_limit",
        "warning",
        f"a shared limit is reached: {workers(high)} deliver what {low} do "
        f"({units.ratio(duel.gain)}), and an item takes a worker {units.seconds(taken)} instead of "
        f"{units.seconds(items.median)} alone, without using the CPU",
        why="storage, a network or a lock gives so much in total; more workers only wait longer",
        remedy=f"set num_workers={low}; read less (smaller or packed files), or cache locally",
        evidence=(
            *evidence_of(duel, f"with num_workers={duel.value}"),
            figure(f"seconds of an item with {workers(high)}", taken, "s"),
            figure("seconds of an item alone", items.median, "s"),
        ),
    )


def _more(target: TargetFacts) -> Finding | None:
    duel, items = faster(target, "more"), target.items
    if duel is None or items is None:
        return None
    evidence = (
        *evidence_of(duel, f"with num_workers={duel.value}"),
        figure("CPU share of an item", items.cpu_share, "share"),
    )
    if items.cpu_share < _IDLE:
        return found(
            "speed.latency_bound",
            "warning",
            f"workers wait for storage or a network (latency): an item takes "
            f"{units.seconds(items.median)}, {units.share(items.cpu_share)} of it on the CPU; "
            f"num_workers={duel.value} gives {gain_of(duel)}",
            why="a worker that waits needs no CPU, so more workers than CPUs pay",
            remedy=f"set num_workers={duel.value} or more (12 to 32 are usual here), or read "
            "several items at once with threads in __getitems__; feedrate tune finds the number",
            evidence=evidence,
        )
    return found(
        "speed.too_few_workers",
        "warning",
        f"{workers(target.workers)} do not keep up: num_workers={duel.value} gives {gain_of(duel)}",
        remedy=f"set num_workers={duel.value}",
        evidence=evidence,
    )


def _load_bound(target: TargetFacts) -> Finding | None:
    share, loop, items = target.wait_share, target.loop, target.items
    if share is None or loop is None or items is None or not loop.has_step or not target.workers:
        return None
    if share < _WAITS or target.setup is None or faster(target, "no_workers"):
        return None
    more = faster(target, "more")
    batch = (target.setup.facts.batch_size or 1) * items.median
    step = sum(loop.steps) / len(loop.steps) if loop.steps else 0.0
    if batch / target.workers < step:
        return None  # they would keep up, did nothing else stand in the way
    way_out = (
        f"num_workers={more.value}, which gave {gain_of(more)}, or cheaper items"
        if more is not None
        else "cheaper items (smaller images, less work, a cache), or more CPUs"
    )
    return found(
        "speed.load_bound",
        "info",
        f"the loader is slower than the step: a batch takes a worker {units.seconds(batch)} to "
        f"load, {workers(target.workers)} give one every "
        f"{units.seconds(batch / target.workers)} at best, and the loop waits {units.share(share)} "
        "of the time",
        why=f"with num_workers={target.workers} batches come in bursts of {target.workers}, one "
        "slow wait and then quick ones; that is how delivery in order looks, and no fault",
        remedy=way_out,
        evidence=(
            figure("share of waiting", share, "share"),
            figure("seconds to load a batch", batch, "s"),
        ),
    )


CHECKS = (
    of_target("number of workers", _too_many),
    of_target("shared limit", _shared_limit),
    of_target("more workers", _more),
    of_target("load", _load_bound),
)
