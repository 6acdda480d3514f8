"""Checks of speed: each stands on a trial against the loader as it is, or is information."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import Duel, Question
from feedrate.records import Evidence, Finding

GAIN = 1.15
"""Less than this over a few short windows may be chance."""
_NOISY, _GAIN_IN_NOISE = 0.2, 2.5
_MUCH = 5.0
"""Without a step nobody knows whether the loop needs more, unless it is so much."""
_FAR = 1.5
_SAME = 0.1
_MANY_TENSORS = 64
_IDLE, _BUSY = 0.5, 0.6
_QUEUED = 2.0
"""How many times longer an item takes with all workers than alone, where they share a limit."""
_WAITS = 0.3
_SLOW_START = 0.5
_WORTH = 0.05


def _faster(target: TargetFacts, question: Question) -> Duel | None:
    """Return a trial that was faster beyond doubt.

    Where other programs took much of the CPUs meanwhile, only a large gain is.
    """
    duel = target.duel(question)
    least = _GAIN_IN_NOISE if (target.others or 0.0) > _NOISY else GAIN
    return duel if duel is not None and duel.is_clear and duel.gain >= least else None


def _evidence(duel: Duel, other: str) -> tuple[Evidence, ...]:
    return (
        Evidence(
            name=f"rate {other} over its own",
            value=duel.gain,
            unit="ratio",
            low=min(duel.other) / max(duel.own),
            high=max(duel.other) / min(duel.own),
        ),
        figure("rate as it is", sorted(duel.own)[len(duel.own) // 2], "items/s"),
        figure(f"rate {other}", sorted(duel.other)[len(duel.other) // 2], "items/s"),
    )


def _gain(duel: Duel) -> str:
    return f"{units.ratio(duel.gain)} as many items/s"


def _without_workers(target: TargetFacts) -> Finding | None:
    duel, loop = _faster(target, "no_workers"), target.loop
    if duel is None or loop is None:
        return None
    evidence = (
        *_evidence(duel, "with num_workers=0"),
        figure("tensors in a batch", loop.batch_tensors, "tensors"),
        figure("size of a batch", loop.batch_bytes, "bytes"),
    )
    if loop.batch_tensors >= _MANY_TENSORS:
        return found(
            "speed.many_tensors",
            "warning",
            f"a batch holds {loop.batch_tensors:,} tensors, each of which is sent by itself: with "
            f"num_workers=0, where none is sent, {_gain(duel)}",
            why="every tensor takes a file in shared memory, a descriptor and a message",
            remedy="collate into a few large tensors (torch.cat, torch.stack, offsets), or send "
            "NumPy arrays; or num_workers=0",
            evidence=evidence,
        )
    fewer = _faster(target, "fewer")
    if fewer is not None and duel.gain < _FAR * fewer.gain:
        return None  # it is their number
    return found(
        "speed.transport_dominates",
        "warning" if loop.has_step or duel.gain >= _MUCH else "info",
        f"moving batches from {workers(target.workers)} costs more than making them: with "
        f"num_workers=0 {_gain(duel)}",
        why="an item is made in so little time that handing a batch over takes longer",
        remedy="set num_workers=0, or make batches larger",
        evidence=evidence,
    )


def _no_overlap(target: TargetFacts) -> Finding | None:
    duel, loop = _faster(target, "workers"), target.loop
    if duel is None or loop is None:
        return None
    share = target.wait_share or 0.0
    if not loop.has_step:
        return found(
            "speed.too_few_workers",
            "info",
            f"{workers(duel.value)} would deliver {_gain(duel)}; whether the loop needs them "
            "depends on its step (--step)",
            evidence=_evidence(duel, f"with num_workers={duel.value}"),
        )
    return found(
        "speed.no_overlap",
        "warning",
        f"with num_workers=0 the step waits for every batch, {units.share(share)} of the time: "
        f"num_workers={duel.value} gives {_gain(duel)}",
        why="the main process makes each batch itself, between two steps",
        remedy=f"set num_workers={duel.value}; feedrate tune finds the best number",
        evidence=(
            *_evidence(duel, f"with num_workers={duel.value}"),
            figure("share of waiting", share, "share"),
        ),
    )


def _too_many(target: TargetFacts) -> Finding | None:
    duel, setup = _faster(target, "fewer"), target.setup
    if duel is None or setup is None or _shared_limit(target) is not None:
        return None
    cpus = units.number(setup.cpus)
    evidence = _evidence(duel, f"with num_workers={duel.value}")
    ranks = max(setup.ranks, target.ranks)
    if ranks > 1:
        total = ranks * target.workers
        return found(
            "speed.ddp_oversubscription",
            "warning",
            f"num_workers is for each rank: {ranks} ranks (LOCAL_WORLD_SIZE) × "
            f"{target.workers} = {total} workers on this host; on one rank's share of the CPUs "
            f"num_workers={duel.value} gives {_gain(duel)}",
            why="every rank starts its own workers, and they compete for the same CPUs",
            remedy=f"set num_workers={duel.value}: usable CPUs ÷ LOCAL_WORLD_SIZE",
            evidence=(*evidence, figure("workers on this host", total, "workers")),
        )
    return found(
        "speed.too_many_workers",
        "warning",
        f"{workers(target.workers)} for {cpus} usable CPUs: num_workers={duel.value} gives "
        f"{_gain(duel)}",
        why="more workers than CPUs compete for them, and each takes time to start and memory",
        remedy=f"set num_workers={duel.value} (os.cpu_count() knows no container's limit)",
        evidence=(*evidence, figure("usable CPUs", setup.cpus, "CPUs")),
    )


def _shared_limit(target: TargetFacts) -> Finding | None:
    items = target.items
    if items is None or items.cpu_share > _IDLE:
        return None
    fewer, more = target.duel("fewer"), target.duel("more")
    if fewer is not None and fewer.gain >= 1 - _SAME:
        low, high, duel = fewer.value, target.workers, fewer
        rate = sum(fewer.own) / len(fewer.own)
    elif more is not None and more.gain >= 1 - _SAME and _faster(target, "more") is None:
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
            *_evidence(duel, f"with num_workers={duel.value}"),
            figure(f"seconds of an item with {workers(high)}", taken, "s"),
            figure("seconds of an item alone", items.median, "s"),
        ),
    )


def _more(target: TargetFacts) -> Finding | None:
    duel, items = _faster(target, "more"), target.items
    if duel is None or items is None:
        return None
    evidence = (
        *_evidence(duel, f"with num_workers={duel.value}"),
        figure("CPU share of an item", items.cpu_share, "share"),
    )
    if items.cpu_share < _IDLE:
        return found(
            "speed.latency_bound",
            "warning",
            f"workers wait for storage or a network (latency): an item takes "
            f"{units.seconds(items.median)}, {units.share(items.cpu_share)} of it on the CPU; "
            f"num_workers={duel.value} gives {_gain(duel)}",
            why="a worker that waits needs no CPU, so more workers than CPUs pay",
            remedy=f"set num_workers={duel.value} or more (12 to 32 are usual here), or read "
            "several items at once with threads in __getitems__; feedrate tune finds the number",
            evidence=evidence,
        )
    return found(
        "speed.too_few_workers",
        "warning",
        f"{workers(target.workers)} do not keep up: num_workers={duel.value} gives {_gain(duel)}",
        remedy=f"set num_workers={duel.value}",
        evidence=evidence,
    )


def _load_bound(target: TargetFacts) -> Finding | None:
    share, loop, items = target.wait_share, target.loop, target.items
    if share is None or loop is None or items is None or not loop.has_step or not target.workers:
        return None
    if share < _WAITS or target.setup is None or _faster(target, "no_workers"):
        return None
    busy = items.cpu_share > _BUSY and target.workers >= int(target.setup.cpus)
    more = _faster(target, "more")
    if not busy and more is None:
        return None
    size = target.setup.facts.batch_size or 1
    batch = size * items.median
    way_out = (
        f"num_workers={more.value}, which gave {_gain(more)}, or cheaper items"
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


def _threads(target: TargetFacts) -> Finding | None:
    duel, loop = _faster(target, "one_thread"), target.loop
    if duel is None:
        return None
    threads = loop.worker_threads if loop is not None else None
    return found(
        "speed.blas_oversubscription",
        "warning",
        f"libraries in {workers(target.workers)} start threads of their own, which compete for the "
        f"CPUs: with one thread each {_gain(duel)}",
        why="torch limits only its own threads in a worker; OpenBLAS, MKL and OpenMP take as many "
        "as there are CPUs",
        remedy="set OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 before NumPy is "
        "imported, or use threadpoolctl in worker_init_fn",
        evidence=(
            *_evidence(duel, "with one thread in each worker"),
            *([figure("threads of a worker", threads, "threads")] if threads else []),
        ),
    )


def _starts(target: TargetFacts) -> Finding | None:
    starts, pickled = target.starts, target.pickled
    if starts is None or starts.empty is None or not target.workers:
        return None
    more = starts.own - starts.empty
    if more < _SLOW_START or more < 0.25 * starts.own:
        return None
    size = f" of {units.size(pickled.bytes)}" if pickled is not None and pickled.bytes else ""
    return found(
        "speed.spawn_start",
        "warning",
        f"the workers' start takes {units.seconds(starts.own)}, {units.seconds(more)} of it for "
        f"the dataset: its pickle{size} is made and read once per worker, one after the other",
        why=f"workers that start by {target.start_method} are sent the dataset; with a dataset of "
        f"nothing they start in {units.seconds(starts.empty)}",
        remedy="keep the index in flat arrays (feedrate.SharedList), load it in the worker, or set "
        "persistent_workers=True so that it is paid once",
        evidence=(
            figure("seconds to the first batch", starts.own, "s"),
            figure("the same with an empty dataset", starts.empty, "s"),
        ),
    )


def _gap(target: TargetFacts) -> Finding | None:
    starts, loop = target.starts, target.loop
    if starts is None or starts.kept is None or loop is None or not loop.waits:
        return None
    if _faster(target, "fewer"):
        return None  # so many are slow to start
    saved = starts.own - starts.kept
    batch = (sum(loop.waits) + sum(loop.steps)) / len(loop.waits)
    length = target.setup.facts.length if target.setup is not None else None
    if length is None or saved < 0.4:
        return None
    epoch = starts.own + length * batch
    if saved < _WORTH * epoch:
        return None
    return found(
        "speed.epoch_gap",
        "warning",
        f"workers are started again for each epoch: {units.seconds(starts.own)} to its first "
        f"batch, {units.seconds(starts.kept)} where they are kept, of an epoch of about "
        f"{units.seconds(epoch)}",
        why="persistent_workers=False ends them with every epoch",
        remedy="set persistent_workers=True",
        evidence=(
            figure("seconds to the first batch", starts.own, "s"),
            figure("seconds with kept workers", starts.kept, "s"),
            figure("share of an epoch", saved / epoch, "share"),
        ),
    )


def _speed_seen(target: TargetFacts) -> str:
    loop, share = target.loop, target.wait_share
    if loop is None or share is None:
        return ""
    rate = loop.items / loop.seconds
    return f"{units.rate(rate)} items/s; the loop waits {units.share(share)} of the time"


CHECKS = (
    of_target("threads in workers", _threads),
    of_target("speed", _without_workers, _speed_seen),
    of_target("overlap", _no_overlap),
    of_target("number of workers", _too_many),
    of_target("shared limit", _shared_limit),
    of_target("more workers", _more),
    of_target("load", _load_bound),
    of_target("start of workers", _starts),
    of_target("gaps between epochs", _gap),
)
