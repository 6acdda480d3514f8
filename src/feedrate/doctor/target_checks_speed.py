"""Checks of transport, overlap, threads and starts: each stands on a trial, or is information."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_trials import evidence_of, faster, gain_of, is_noisy
from feedrate.records import Finding

_FAR = 1.5
_AS_GOOD = 0.9
_WHATEVER_THE_STEP = 15.0
"""So many times cheaper than handing a batch over, making it need not be hidden behind a step: of
what num_workers=0 gains where steps are short it costs a fifteenth at most where they are long.
Below that the step decides, and where there is none nothing is found."""
_MANY_TENSORS = 64
_SLOW_START = 0.5
_WORTH = 0.05
_LARGE_PICKLE = 4 << 20
_LIGHTER = (
    "keep the index in flat arrays (feedrate.SharedList), load it in the worker, or set "
    "persistent_workers=True so that it is paid once"
)


def _without_workers(target: TargetFacts) -> Finding | None:
    duel, loop = faster(target, "no_workers"), target.loop
    if duel is None or loop is None:
        return None
    evidence = (
        *evidence_of(duel, "with num_workers=0"),
        figure("tensors in a batch", loop.batch_tensors, "tensors"),
        figure("size of a batch", loop.batch_bytes, "bytes"),
    )
    if loop.batch_tensors >= _MANY_TENSORS:
        return found(
            "speed.many_tensors",
            "warning",
            f"a batch holds {loop.batch_tensors:,} tensors, each of which is sent by itself: with "
            f"num_workers=0, where none is sent, {gain_of(duel)}",
            why="every tensor takes a file in shared memory, a descriptor and a message",
            remedy="collate into a few large tensors (torch.cat, torch.stack, offsets), or send "
            "NumPy arrays; or num_workers=0",
            evidence=evidence,
        )
    fewer = faster(target, "fewer")
    if fewer is not None and duel.gain < _FAR * fewer.gain:
        return None  # it is their number
    if not loop.has_step and duel.gain < _WHATEVER_THE_STEP:
        return None
    return found(
        "speed.transport_dominates",
        "warning" if loop.has_step else "info",  # the step decides how much it matters
        f"moving batches from {workers(target.workers)} costs more than making them: with "
        f"num_workers=0 {gain_of(duel)}",
        why="an item is made in so little time that handing a batch over takes longer",
        remedy="set num_workers=0, or make batches larger",
        evidence=evidence,
    )


def _no_overlap(target: TargetFacts) -> Finding | None:
    duel, loop = faster(target, "workers"), target.loop
    if duel is None or loop is None:
        return None
    share = target.wait_share or 0.0
    if not loop.has_step:
        return found(
            "speed.too_few_workers",
            "info",
            f"{workers(duel.value)} would deliver {gain_of(duel)}; whether the loop needs them "
            "depends on its step (--step)",
            evidence=evidence_of(duel, f"with num_workers={duel.value}"),
        )
    return found(
        "speed.no_overlap",
        "warning",
        f"with num_workers=0 the step waits for every batch, {units.share(share)} of the time: "
        f"num_workers={duel.value} gives {gain_of(duel)}",
        why="the main process makes each batch itself, between two steps",
        remedy=f"set num_workers={duel.value}; feedrate tune finds the best number",
        evidence=(
            *evidence_of(duel, f"with num_workers={duel.value}"),
            figure("share of waiting", share, "share"),
        ),
    )


def _starts(target: TargetFacts) -> Finding | None:
    starts, pickled = target.starts, target.pickled
    if starts is None or starts.empty is None or not target.workers:
        return _start_seen(target)
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
        remedy=_LIGHTER,
        evidence=(
            figure("seconds to the first batch", starts.own, "s"),
            figure("the same with an empty dataset", starts.empty, "s"),
        ),
    )


def _start_seen(target: TargetFacts) -> Finding | None:
    """Say what a start took whose dataset is large, where a start without it was not tried."""
    pickled, loop, starts = target.pickled, target.loop, target.starts
    if pickled is None or not pickled.bytes or pickled.bytes < _LARGE_PICKLE:
        return None
    if loop is not None:
        startup, takes = loop.startup, f"takes {units.seconds(loop.startup)}"
    elif starts is not None and not starts.whole:
        startup, takes = starts.own, f"takes more than {units.seconds(starts.own)}"
    else:
        return None
    pickling = pickled.seconds * target.workers
    if target.start_method not in ("spawn", "forkserver") or pickling < _WORTH * startup:
        return None
    if startup < _SLOW_START:
        return None
    return found(
        "speed.spawn_start",
        "info",
        f"the workers' start {takes}; the dataset's pickle of {units.size(pickled.bytes)} is made "
        f"once per worker, {units.seconds(pickling)} in all, and read again; a start without the "
        "dataset was not tried",
        why=f"workers that start by {target.start_method} are sent the dataset, one after the "
        "other",
        remedy=_LIGHTER,
        evidence=(
            figure("seconds to the first batch", startup, "s"),
            figure("size of the pickle", pickled.bytes, "bytes"),
            figure("seconds to pickle it for all workers", pickling, "s"),
        ),
    )


def _gap(target: TargetFacts) -> Finding | None:
    starts, loop = target.starts, target.loop
    if starts is None or starts.kept is None or loop is None or not loop.waits:
        return None
    if is_noisy(target):
        return None  # workers that start wait for other programs too
    fewer = target.duel("fewer")
    if fewer is not None and fewer.gain >= _AS_GOOD:
        return None  # so many are slow to start, and fewer do
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
    seen = f"{units.rate(rate)} items/s; the loop waits {units.share(share)} of the time"
    duel = faster(target, "no_workers")
    if duel is None or loop.has_step:
        return seen
    return f"{seen}; {gain_of(duel)} with num_workers=0, which is best depends on the step (--step)"


CHECKS = (
    of_target("speed", _without_workers, _speed_seen),
    of_target("overlap", _no_overlap),
    of_target("start of workers", _starts),
    of_target("gaps between epochs", _gap),
)
