"""The loader failed, died or hung: what that means, and which item does it."""

from __future__ import annotations

from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.entry import Explanation
from feedrate.doctor.explaining import explain_text
from feedrate.doctor.facts import Facts, Pending, ProgramFacts
from feedrate.doctor.matching import quote
from feedrate.doctor.target_check import figure, found
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import BadItem
from feedrate.records import Evidence, Finding, RunError

_BY_KIND = {
    "timeout": "crash.worker_stuck",
    "out_of_memory": "crash.host_oom",
    "shared_memory": "crash.shm_exhausted",
    "killed": "crash.worker_sigkill",
    "worker_died": "crash.worker_exit",
    "crashed": "crash.worker_segfault",
    "no_batches": "correctness.no_batches",
}
"""The codes of errors whose text is not known, by what became of the process."""
_BY_SIGNAL = {
    "SIGSEGV": "crash.worker_segfault",
    "SIGABRT": "crash.worker_abort",
    "SIGKILL": "crash.worker_sigkill",
    "SIGBUS": "crash.shm_exhausted",
}
_HANGS = ("hang-in-item", "hang-nobody-works", "hang-after-fork", "hang-at-start")
"""What the stacks of a script may show that had no batch; where its main process waits for one."""
_SIZES = ("crash.collate_size", "crash.collate_type")


def _failing(facts: DoctorFacts) -> Finding | None:
    target = facts.target
    if target is None:
        return None
    error = target.broken.error if target.broken is not None else target.error
    if error is None:
        return _read_alone(facts, target)
    if error.kind == "interrupted":
        return None
    if error is target.error and error.kind == "timeout":
        return _silent(facts, target, error)
    return _explained(facts, target, error)


def _explained(facts: DoctorFacts, target: TargetFacts, error: RunError) -> Finding | None:
    program = ProgramFacts(
        exit_codes=target.broken.exit_codes if target.broken is not None else (),
        pending=_pending(target),
    )
    if target.items is not None and target.items.beyond and "IndexError" in error.sentence:
        return None  # told with the length that is wrong
    text = error.traceback or error.sentence
    known = _best(explain_text(text, Facts(facts.machine.host, program)))
    if known is None or known.code == "unknown":
        return _unknown(target, error)
    if known.code == "crash.not_picklable" and target.pickled and target.pickled.failed:
        return None  # told with the attribute at fault
    finding = known.finding()
    return Finding(
        code=known.code,
        severity="error",
        title=finding.title + _when(target) + _item_words(target, known.code),
        why=finding.why,
        remedy=finding.remedy,
        machine=finding.machine,
        evidence=(*finding.evidence, *_item_evidence(target)),
        quote=quote(finding.quote),
    )


def _read_alone(facts: DoctorFacts, target: TargetFacts) -> Finding | None:
    """Say what an item did that was read alone, where there was no time to iterate the loader."""
    bad = target.bad_item
    if bad is None:
        return None
    known = _best(explain_text(bad.text, Facts(facts.machine.host))) if bad.text else None
    code = {"hung": "crash.worker_stuck", "died": _BY_SIGNAL.get(bad.headline, "crash.worker_exit")}
    fallback = code.get(bad.end, "crash.exception")
    return found(
        known.code if known is not None and known.code != "unknown" else fallback,
        "warning" if bad.end == "hung" else "error",
        f"item {bad.index} {_did(bad)}, read alone; there was no time left to iterate the loader",
        why="the worker that gets it comes to the same, and the batches behind it wait",
        remedy="look at that item and the file that it reads; give doctor more time: --budget 2m",
        evidence=_item_evidence(target),
    )


def _silent(facts: DoctorFacts, target: TargetFacts, error: RunError) -> Finding | None:
    """Say what it means that the child said nothing more: its loop hung, or time was short."""
    if target.loop is not None:
        return None  # a trial hung, not the loader
    if target.setup is not None and target.items is None:
        return _unknown(target, error)
    known = _best(explain_text(error.traceback, Facts(facts.machine.host)))
    if known is not None and known.name in _HANGS:
        finding = known.finding()
        return found(
            known.code,
            "warning",
            f"no batch came before the time was up: {finding.title}",
            why=finding.why,
            remedy=f"if it only takes long, give it more time (--budget 2m); {finding.remedy}",
        )
    return found(
        "doctor.no_time",
        "info",
        "the target was not examined: it had no batch before the time was up",
        why=error.sentence,
        remedy="give it more time: --budget 2m",
    )


def _best(explanations: tuple[Explanation, ...]) -> Explanation | None:
    errors = [each for each in explanations if each.severity == "error" and each.role != "note"]
    return errors[0] if errors else None


def _unknown(target: TargetFacts, error: RunError) -> Finding:
    return found(
        _BY_KIND.get(error.kind, "crash.exception"),
        "error",
        error.sentence + _item_words(target, ""),
        why="training meets it too: the loader was iterated as it is, in a process of its own",
        remedy="mend what the sentence names; the whole traceback stands in the details (-v)",
        evidence=_item_evidence(target),
    )


def _when(target: TargetFacts) -> str:
    if target.broken is None or not target.broken.batches:
        return ""
    count = target.broken.batches
    return f" (after {count} batch{'' if count == 1 else 'es'})"


def _item_words(target: TargetFacts, code: str) -> str:
    odd = target.items.odd if target.items is not None else None
    if code in _SIZES and odd is not None:
        return (
            f"; item {odd.index} is the first that differs: {odd.path} is {odd.found}, "
            f"and {odd.first} in the first item"
        )
    bad = target.bad_item
    return f"; read alone, item {bad.index} {_did(bad)}" if bad is not None else ""


def _did(bad: BadItem) -> str:
    if bad.end == "raised":
        return f"raises {quote(bad.headline)}"
    if bad.end == "died":
        return f"ends its process ({bad.headline})"
    return f"does not come within {bad.seconds:.0f} s"


def _item_evidence(target: TargetFacts) -> list[Evidence]:
    bad = target.bad_item
    if bad is not None:
        return [figure("item at fault", bad.index, "index")]
    odd = target.items.odd if target.items is not None else None
    return [figure("first item that differs", odd.index, "index")] if odd is not None else []


def _pending(target: TargetFacts) -> tuple[Pending, ...]:
    """Return the batch that the item at fault is in, where items come in order."""
    bad, setup = target.bad_item, target.setup
    if bad is None or setup is None or not setup.facts.num_workers or not setup.facts.batch_size:
        return ()
    if not setup.sampler.endswith("SequentialSampler"):
        return ()
    size = setup.facts.batch_size
    batch = bad.index // size
    last = min((batch + 1) * size, setup.facts.dataset_length or (batch + 1) * size)
    return (
        Pending(
            worker=batch % setup.facts.num_workers,
            batch=batch,
            indices=tuple(range(batch * size, last)),
        ),
    )


def _seen(facts: DoctorFacts) -> str:
    loop = facts.target.loop if facts.target is not None else None
    if loop is None:
        return ""
    return f"{loop.batches + 1} batches of it came, and no error"


CHECKS = (Check("iterating the loader", _failing, _seen),)
