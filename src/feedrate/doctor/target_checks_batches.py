"""Checks of batches on their way: what collating takes, and what rebuilding takes of the loop."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_trials import faster
from feedrate.records import Finding

_SHARE = 0.3
_LEAST_SECONDS = 2e-3
"""Less than this for a batch is not worth a change."""
_CHEAPER = 1.5
_WAITS = 0.1
_PARTS, _MANY_TENSORS = 8, 64
_REBUILDS, _LONG_WAIT = 0.6, 0.3


def _collate(target: TargetFacts) -> Finding | None:
    items, setup = target.items, target.setup
    if items is None or setup is None or not items.collate_seconds or not items.collated:
        return None
    if (target.wait_share or 0.0) < _WAITS:
        return None  # the loop does not feel it
    making = items.collated * items.median
    share = items.collate_seconds / (making + items.collate_seconds)
    if share < _SHARE or items.collate_seconds < _LEAST_SECONDS:
        return None
    if not setup.collate and len(items.leaves) < _PARTS:
        return None  # few copies, each of which is as quick as memory
    evidence = [
        figure("seconds to collate a batch", items.collate_seconds, "s"),
        figure("seconds to make its items", making, "s"),
        figure("share of collating", share, "share"),
    ]
    name = setup.collate or "default_collate"
    title = (
        f"{name} takes {units.share(share)} of a batch's time: "
        f"{units.seconds(items.collate_seconds)} for {items.collated} items, which take "
        f"{units.seconds(making)}"
    )
    if items.collate_default and items.collate_seconds > _CHEAPER * items.collate_default:
        evidence.append(
            figure("seconds of default_collate for the same", items.collate_default, "s")
        )
        whole = (making + items.collate_seconds) / (making + items.collate_default)
        return found(
            "speed.collate",
            "warning" if whole > _CHEAPER and target.loop and target.loop.has_step else "info",
            f"{title}; torch's own makes the same batch in {units.seconds(items.collate_default)}",
            why="a worker makes the items of a batch and then collates them, one after the other",
            remedy="leave collate_fn away",
            evidence=evidence,
        )
    return found(
        "speed.collate",
        "info",
        title,
        why="a worker makes the items of a batch and then collates them, one after the other; "
        "what another way of collating would take was not tried",
        remedy="return arrays or tensors of one shape, which are stacked in one copy; convert in "
        "__getitem__ what is converted for each item in collate_fn"
        if setup.collate
        else "return few large tensors for each item instead of many small ones",
        evidence=evidence,
    )


def _rebuilding(target: TargetFacts) -> Finding | None:
    loop, share = target.loop, target.wait_share
    if loop is None or share is None or not target.workers or loop.wait_cpu_share is None:
        return None
    if loop.wait_cpu_share < _REBUILDS or share < _LONG_WAIT:
        return None
    if loop.leaves and loop.batch_tensors < _MANY_TENSORS:
        return None  # tensors, which are mapped and not unpickled
    wait = sum(loop.waits) / len(loop.waits)
    if wait < _LEAST_SECONDS or faster(target, "no_workers") is not None:
        return None  # told with the gain that was seen without workers
    return found(
        "speed.main_unpickle",
        "info",
        f"the main process computes for {units.share(loop.wait_cpu_share)} of the time that it "
        f"waits for batches ({units.seconds(wait)} each): it rebuilds what workers have sent",
        why="what is no tensor is pickled by the worker and unpickled by the main process, which "
        "does it alone, between two steps",
        remedy="let collate_fn make tensors of it, or NumPy arrays; pin_memory=True does it in a "
        "thread beside the step",
        evidence=(
            figure("share of waiting on the CPU", loop.wait_cpu_share, "share"),
            figure("seconds of a wait", wait, "s"),
            figure("size of a batch", loop.batch_bytes, "bytes"),
        ),
    )


CHECKS = (
    of_target("collating", _collate),
    of_target("rebuilding batches", _rebuilding),
)
