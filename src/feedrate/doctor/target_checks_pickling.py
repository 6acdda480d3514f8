"""Checks of what is sent to workers that are spawned, and of what forked ones share."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target, workers
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import Handle, Unpicklable
from feedrate.records import Finding

_SENT = ("spawn", "forkserver")
_HANDLES = ("file", "hdf5", "lmdb", "archive", "socket", "database")
_WHAT = {
    "file": "a file's position is shared, so workers read from where another one stopped",
    "hdf5": "HDF5 keeps state that is not made for a fork: reads fail, hang or are wrong",
    "lmdb": "an LMDB environment must not be used in a process that was forked from its own",
    "archive": "the archive's file has one position for all workers: reads return wrong bytes",
    "socket": "answers to one worker arrive at another",
    "database": "a database connection must not be used in a process that was forked from its own",
}


def _not_picklable(target: TargetFacts) -> Finding | None:
    pickled = target.pickled
    if pickled is None or not pickled.failed:
        return None
    now = target.workers > 0 and target.start_method in _SENT
    first = pickled.failed[0]
    more = len(pickled.failed) - 1
    title = f"{first.path} ({first.kind}) cannot be pickled"
    if more:
        title += f", nor can {more} more: {', '.join(each.path for each in pickled.failed[1:])}"
    return found(
        "crash.not_picklable",
        "error" if now else "info",
        title,
        why=(
            f"workers that start by {target.start_method} are sent the dataset: {first.error}"
            if now
            else "it works with fork; by spawn or forkserver (macOS, Windows, Python 3.14) no "
            f"worker can start: {first.error}"
        ),
        remedy=_way_out(first),
        evidence=(figure("attributes that cannot be pickled", len(pickled.failed), "attributes"),),
    )


def _way_out(fault: Unpicklable) -> str:
    if fault.kind == "a lambda" or fault.kind.startswith("the function"):
        return (
            "define the function at the top of a module (functools.partial for its arguments), or "
            "use multiprocessing_context='fork'"
        )
    return (
        "open or make it lazily in the worker (in __getitem__ or worker_init_fn) instead of in "
        "__init__, or use multiprocessing_context='fork'"
    )


def _pickled_seen(target: TargetFacts) -> str:
    pickled = target.pickled
    if pickled is None or pickled.bytes is None:
        return ""
    return f"{units.size(pickled.bytes)} in {units.seconds(pickled.seconds)}, for each worker"


def _shared_handles(target: TargetFacts) -> Finding | None:
    held = _of(target, _HANDLES)
    if not held or target.start_method != "fork":
        return None
    first = held[0]
    shared = target.workers > 0
    names = ", ".join(f"{each.path} ({each.kind})" for each in held[:4])
    return found(
        "risk.handle_shared_over_fork",
        "warning" if shared else "info",
        f"{names} {'is' if len(held) == 1 else 'are'} open before the workers start",
        why=(
            f"{workers(target.workers)} get it by fork: {_WHAT[first.family]}"
            if shared
            else f"no worker gets it yet; with workers, {_WHAT[first.family]}"
        ),
        remedy="open it in the worker: on the first __getitem__ (if self.f is None), or in "
        "worker_init_fn",
        evidence=(figure("open handles in the dataset", len(held), "handles"),),
    )


def _handles_seen(target: TargetFacts) -> str:
    return "" if target.handles is None else "none is open in the dataset"


def _locked(target: TargetFacts) -> Finding | None:
    held = _of(target, ("lock",))
    if not held or target.start_method != "fork":
        return None
    return found(
        "crash.fork_deadlock",
        "warning" if target.workers else "info",
        f"{held[0].path} is locked before the workers start",
        why="a fork copies the lock and not the thread that would release it: a worker that asks "
        "for it waits for ever",
        remedy="release it before the loader is iterated, or make it in the worker",
        evidence=(figure("locks held", len(held), "locks"),),
    )


def _on_device(target: TargetFacts) -> Finding | None:
    held = _of(target, ("cuda",))
    if not held or target.start_method != "fork":
        return None
    return found(
        "crash.cuda_in_worker",
        "warning" if target.workers else "info",
        f"{held[0].path} is on the GPU",
        why="CUDA cannot be used in a forked process: the first item that touches it raises "
        "'Cannot re-initialize CUDA in forked subprocess'",
        remedy="keep the dataset on the CPU and move batches in the loop, or use num_workers=0 for "
        "a dataset that is on the GPU whole",
        evidence=(figure("tensors on the GPU", len(held), "tensors"),),
    )


def _of(target: TargetFacts, families: tuple[str, ...]) -> list[Handle]:
    if target.handles is None:
        return []
    return [each for each in target.handles.handles if each.family in families]


CHECKS = (
    of_target("pickling", _not_picklable, _pickled_seen),
    of_target("open handles", _shared_handles, _handles_seen),
    of_target("locks", _locked),
    of_target("tensors on a GPU", _on_device),
)
