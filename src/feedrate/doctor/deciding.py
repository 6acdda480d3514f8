"""What facts decide where a text has several causes: exit codes, descriptors, pending batches."""

from __future__ import annotations

from feedrate.doctor.entry import Entry
from feedrate.doctor.facts import Facts, Pending
from feedrate.doctor.figures import near_limit
from feedrate.doctor.matching import Hit
from feedrate.doctor.messages import CATALOGUE, seen

_BY_NAME = {entry.name: entry for entry in CATALOGUE}
_BY_SIGNAL = {
    4: "worker-illegal-instruction",
    6: "worker-aborted",
    7: "worker-bus-error",
    8: "worker-arithmetic",
    9: "worker-killed",
    11: "worker-segfault",
    15: "worker-terminated",
}
_DIED = ("worker-exited", "worker-exit-code", "worker-gone", "worker-signal", "pin-thread")
"""Entries that say that a worker is gone and not why."""
_CONNECTION = ("worker-gone", "pin-thread")
_HELD_A_BATCH = ("worker-timeout", "worker-killed", "worker-segfault", "worker-aborted",
                 "worker-arithmetic", "worker-illegal-instruction", "worker-bus-error",
                 "hang-in-item", "hang-main-waits")  # fmt: skip
_SHELL = 128
"""What a shell adds to the number of the signal that ended a program."""
_REPEATED = 1.5
_ROUNDED = 1.1


def decide(hit: Hit, facts: Facts) -> Hit:
    """Return the hit with the entry that the facts point to, or as it is."""
    entry = hit.entry
    if entry.name == "iterable-length":
        return _with(hit, _of_length(hit) or entry)
    if entry.name in _CONNECTION and near_limit(facts):
        return _with(hit, _BY_NAME["descriptors-of-process"])
    if entry.name in _DIED:
        codes = [*facts.program.exit_codes]
        if entry.name == "worker-exit-code" and hit.values.get("exit", "").isdigit():
            codes.append(int(hit.values["exit"]))
        for code in codes:
            # a subprocess's death by signal, as the shell that a worker ran tells it
            signal = -code if code < 0 else code - _SHELL
            if signal in _BY_SIGNAL:
                return _with(hit, _BY_NAME[_BY_SIGNAL[signal]])
            if code > 0:
                hit.values["exit"] = str(code)
                return _with(hit, _BY_NAME["worker-exit-code"])
    return hit


def pending_words(name: str, facts: Facts) -> str:
    """Return what the worker held when it ended or hung, "" where that is not known."""
    if name not in _HELD_A_BATCH or not facts.program.pending:
        return ""
    held: Pending = facts.program.pending[0]
    items = ""
    if held.indices:
        first, last = held.indices[0], held.indices[-1]
        run = held.indices == tuple(range(first, last + 1))
        shown = (
            f"{first} to {last}" if run and first != last else ", ".join(map(str, held.indices[:8]))
        )
        items = f" (items {shown}{', …' if not run and len(held.indices) > 8 else ''})"
    return f"; the oldest batch still missing is batch {held.batch} of worker {held.worker}{items}"


def _with(hit: Hit, entry: Entry) -> Hit:
    return Hit(entry, hit.report, hit.place, hit.line, hit.values, hit.times, hit.ranks)


def _of_length(hit: Hit) -> Entry | None:
    """Return what the announced and the delivered number say about an IterableDataset."""
    told, came = hit.values.get("told", ""), hit.values.get("came", "")
    if not told.isdigit() or not came.isdigit() or int(told) == 0:
        return None
    ratio = int(came) / int(told)
    if ratio >= _REPEATED:
        return seen.DUPLICATES
    return seen.ROUNDING if ratio <= _ROUNDED or int(came) - int(told) <= 1 else None
