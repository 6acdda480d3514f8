"""The verdict on prefetch memory: what batches in flight take, by the settings and as measured."""

from __future__ import annotations

from feedrate.analysis.conditions import Condition, at_count, finding
from feedrate.analysis.plateau import balanced
from feedrate.analysis.wording import figure, percent, workers
from feedrate.records import Finding, LoaderFacts
from feedrate.units import size

NEARLY_FULL = 0.8


def prefetch_memory(condition: Condition) -> Finding | None:
    """Say what the batches in flight take for the balanced choice: workers × prefetch × batch.

    Batches of torch's loader wait in ``/dev/shm`` until the loop takes them. A warning where they,
    or the measured peak, take more than ``NEARLY_FULL`` of it: a larger batch or one more worker
    ends in a bus error. Those of feedrate's wait in memory elsewhere.
    """
    if not condition.curve:
        return None
    point = at_count(condition.curve, balanced(condition.curve))
    known = [run.facts for run in point.runs if run.facts is not None]
    facts = max(known, key=lambda facts: facts.batch_bytes, default=None)
    if facts is None or not (facts.num_workers and facts.prefetch_factor and facts.batch_bytes):
        return None
    need = facts.num_workers * facts.prefetch_factor * facts.batch_bytes
    title = f"{_product(facts)} = {size(need)} of batches can wait"
    in_shm = facts.loader != "feedrate"
    if point.peak_shm is not None and in_shm:
        title += f"; /dev/shm held {size(point.peak_shm)} more at the peak than before"
    space = condition.metadata.shm_bytes
    most = max(need, point.peak_shm or 0)
    full = in_shm and space is not None and most > NEARLY_FULL * space
    if full and space is not None:
        title += f", {percent(most / space)} of the {size(space)} that there are"
    return finding(
        condition,
        "sweep.prefetch_memory",
        f"{title}.",
        evidence=[
            figure("batches in flight, by the settings", need, "bytes"),
            figure("bytes of a batch", facts.batch_bytes, "bytes"),
            figure("peak in /dev/shm", point.peak_shm, "bytes")
            if point.peak_shm is not None
            else None,
            figure("size of /dev/shm", space, "bytes") if space is not None else None,
        ],
        remedy="Lower prefetch_factor or the batch size, or give /dev/shm more room "
        "(docker run --shm-size)."
        if full
        else "",
        severity="warning" if full else "info",
    )


def _product(facts: LoaderFacts) -> str:
    batches = "batch" if facts.prefetch_factor == 1 else "batches"
    return (
        f"{workers(facts.num_workers)} × {facts.prefetch_factor} {batches} of "
        f"{size(facts.batch_bytes)}"
    )
