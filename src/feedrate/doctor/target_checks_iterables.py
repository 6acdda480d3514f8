"""Checks of IterableDatasets and of lengths: how many items come, and from whom."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import Stream
from feedrate.records import Finding

_REPEATED = 0.5
"""The share of one worker's items that come from another one too, where a stream is repeated."""
_FEWEST = 8
_LOST = 0.05


def _duplicates(target: TargetFacts) -> Finding | None:
    stream = target.stream
    if stream is None or len(stream.shares) < 2 or not _is_repeated(stream):
        return None
    count = len(stream.shares)
    total = sum(stream.shares)
    now = target.workers > 1
    seen = (
        f"one process makes {stream.single:,} items, {workers(count)} {total:,}"
        if stream.whole
        else f"{stream.repeated:,} of {stream.compared:,} items of one worker came from another one"
        " too"
    )
    return found(
        "correctness.iterable_duplicates",
        "warning" if now else "info",
        f"every worker iterates the whole stream: {seen}",
        why=f"an IterableDataset is copied into each worker, and its __iter__ does not ask which "
        f"part is its own; each item is trained on {count} times in an epoch"
        + ("" if now else f" with {workers(count)}"),
        remedy="divide in __iter__: info = torch.utils.data.get_worker_info(), then "
        "islice(items, info.id, None, info.num_workers), or shards[info.id::info.num_workers]",
        evidence=(
            figure("items from one process", stream.single, "items"),
            figure(f"items from {workers(count)}", total, "items"),
        ),
    )


def _is_repeated(stream: Stream) -> bool:
    busy = [share for share in stream.shares if share]
    if len(busy) < 2:
        return False
    if stream.whole and stream.single >= _FEWEST:
        return sum(stream.shares) >= 0.9 * len(busy) * stream.single
    return stream.compared >= _FEWEST and stream.repeated >= _REPEATED * stream.compared


def _idle(target: TargetFacts) -> Finding | None:
    stream = target.stream
    if stream is None or not target.workers or _is_repeated(stream):
        return None
    idle = sum(share == 0 for share in stream.shares)
    if not idle or not stream.whole or sum(stream.shares) < _FEWEST:
        return None
    busy = len(stream.shares) - idle
    return found(
        "speed.shard_imbalance",
        "info",  # that they are idle was seen, and not what more shards would gain
        f"{idle} of {workers(len(stream.shares))} get nothing: the stream has work for {busy}",
        why="where shards are dealt out whole, workers beyond their number start, take memory, and "
        "end at once; only the others work",
        remedy=f"set num_workers={busy}, or cut the data into more shards, several for each worker",
        evidence=(
            figure("workers without an item", idle, "workers"),
            figure("workers", len(stream.shares), "workers"),
            figure("items from all", sum(stream.shares), "items"),
        ),
    )


def _dropped(target: TargetFacts) -> Finding | None:
    stream, setup = target.stream, target.setup
    if stream is None or setup is None or not setup.drop_last or not stream.whole:
        return None
    size = setup.facts.batch_size
    if not size or len(stream.shares) != target.workers or _is_repeated(stream):
        return None
    total = sum(stream.shares)
    lost = sum(share % size for share in stream.shares)
    anyway = total % size
    if total == 0 or lost - anyway < _LOST * total:
        return None
    return found(
        "correctness.drop_last_per_worker",
        "warning",
        f"drop_last drops the rest of every worker: {lost:,} of {total:,} items "
        f"({units.share(lost / total)}) are never used with {workers(target.workers)}, "
        f"{anyway:,} with one",
        why=f"each worker makes batches of {size} of its own share, and the last one of each is "
        "short",
        remedy="use fewer workers, or shares that are multiples of batch_size; or drop_last=False",
        evidence=(
            figure("items never used", lost, "items"),
            figure("items", total, "items"),
        ),
    )


def _length(target: TargetFacts) -> Finding | None:
    stream, setup = target.stream, target.setup
    if stream is None or setup is None or not stream.whole:
        return None
    told = setup.facts.dataset_length
    if told is None or told == stream.single:
        return None
    return found(
        "correctness.wrong_len",
        "warning",
        f"len(dataset) is {told:,}, and iterating it in one process gives {stream.single:,} items",
        why="schedules and progress bars go by len(), and torch warns where more comes",
        remedy="return in __len__ how many items __iter__ yields, or leave __len__ out",
        evidence=(
            figure("announced items", told, "items"),
            figure("items delivered", stream.single, "items"),
        ),
    )


def _stream_seen(target: TargetFacts) -> str:
    stream = target.stream
    if stream is None or not stream.shares:
        return ""
    shares = ", ".join(f"{share:,}" for share in stream.shares)
    return f"{stream.single:,} items from one process; {shares} from {workers(len(stream.shares))}"


CHECKS = (
    of_target("sharing a stream out", _duplicates, _stream_seen),
    of_target("shards", _idle),
    of_target("drop_last", _dropped),
    of_target("length", _length),
)
