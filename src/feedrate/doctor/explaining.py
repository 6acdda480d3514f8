"""From a text to its explanations, the likeliest cause first: the one way in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from feedrate.doctor import hanging
from feedrate.doctor.deciding import decide, pending_words
from feedrate.doctor.entry import Entry, Explanation
from feedrate.doctor.facts import Facts
from feedrate.doctor.figures import say
from feedrate.doctor.log import (
    HEADER,
    ORIGINAL,
    Line,
    Log,
    Report,
    headline_parts,
    is_headline,
    read_frame,
    read_log,
)
from feedrate.doctor.matching import Hit, fill, find, is_known, quote
from feedrate.doctor.messages import CATALOGUE, seen
from feedrate.measure.blame import Frame, is_own

_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|"
    r"SystemExit|SignalException|RayTaskError|SubprocessError"
)
"""Errors with which a launcher says that something that it started has failed."""
_CAUGHT = re.compile(r"Caught \w+ in (?P<where>DataLoader worker process \d+|pin memory thread)")
_REMARKS = ("Warning", "KeyboardInterrupt")
_WHY_LATE = ("batch-not-sent", *(entry.name for entry in seen.ENTRIES if "hang" in entry.name))
"""Entries that say why no batch came, and not only that none did."""
_OF_OTHERS = ("crash.rank_lost", "crash.child_failed")
_AT_THE_END = ("end-of-program", "iterator-in-other-process")


def explain_text(text: str, facts: Facts | None = None) -> tuple[Explanation, ...]:
    """Return what a traceback, a log or a dump of stacks tells, the likeliest cause first.

    Nothing where it tells of no error. An error that is not known is explained by `seen.UNKNOWN`,
    with the line that it comes from. Notes (``role``) come last. The text may be anything.
    """
    facts = facts or Facts()
    log = read_log(text)
    hits = [decide(hit, facts) for hit in find(log, CATALOGUE)]
    hits += list(_seen(log, hits))
    told = _ordered(_without_doubles(_without_consequences(hits, log)))
    return tuple(_explanation(hit, log, facts) for hit in told)


def worth_telling(explanations: Sequence[Explanation]) -> tuple[Explanation, ...]:
    """Return those that matter: the notes that are mere information only where nothing else is."""
    weighty = tuple(found for found in explanations if found.severity != "info")
    return weighty or tuple(explanations)


def _seen(log: Log, hits: Sequence[Hit]) -> Iterable[Hit]:
    """Yield what the shape of the log shows: hangs, hidden errors, and one that is not known."""
    lines = [line for report in log.reports for line in report.lines]
    names = {hit.entry.name for hit in hits if hit.entry.role == "cause"}
    # a crash prints stacks too
    if names <= {"worker-timeout"} and (stood := hanging.judge(hanging.read_stacks(lines))):
        entry, place, number = stood
        line = next((line for line in lines if line.number == number), Line(number, ""))
        yield Hit(entry, len(log.reports), 0, line, {"place": place})
        return
    failed = [number for number, report in enumerate(log.reports) if _failed(report)]
    # a Ctrl-C is no error, and its traceback needs no explanation
    explained = {hit.report for hit in hits if hit.entry.role != "note"}
    explained |= {hit.report for hit in hits if hit.entry.name == "interrupted"}
    causes = [hit for hit in hits if hit.entry.role == "cause"]
    last_cause = max((hit.report for hit in causes), default=-1)
    unknown = [number for number in failed if number not in explained and number > last_cause]
    if unknown:
        found = _unknown(log.reports[unknown[-1]], unknown[-1], len(unknown))
        # where a rank is known to have failed, what others say later follows from that
        if not causes or found.ranks <= {rank for hit in causes for rank in hit.ranks}:
            yield found
    elif not failed and not any(hit.entry.role != "note" for hit in hits):
        ends = any(hit.entry.name in _AT_THE_END for hit in hits)
        yield from _bare_error(log, "aside" if ends else "")


def _failed(report: Report) -> bool:
    """Tell whether a report is an error that a program failed with, and its own."""
    line = report.headline() if report.kind == "traceback" else None
    return line is not None and _LAUNCHERS.search(line.text) is None


def _bare_error(log: Log, but: str) -> Iterable[Hit]:
    """Yield the last line that names an error, outside of the reports of one kind."""
    for number in reversed(range(len(log.reports))):
        if log.reports[number].kind == but:
            continue
        for line in reversed(log.reports[number].lines):
            kind, _ = headline_parts(line.text)
            if kind[:1].isupper() and not kind.endswith(_REMARKS) and not is_known(line.text):
                values = {"quote": quote(line.text), "place": ""}
                yield Hit(seen.UNKNOWN, number, 0, line, values, 1, _ranks(line))
                return


def _unknown(report: Report, number: int, times: int) -> Hit:
    line = report.headline() or report.lines[-1]
    last = _last_frame(report)
    if last is not None and last.name == "reraise" and not _CAUGHT.search(line.text):
        return Hit(seen.MASKED, number, 0, line, {"quote": quote(line.text)}, times)
    root = _root(report) or line
    values = {"quote": quote(root.text), "place": _place(report)}
    return Hit(seen.UNKNOWN, number, 0, root, values, times, _ranks(root))


def _root(report: Report) -> Line | None:
    """Return the line of the error that came before all others in a chain of them."""
    begin = max(
        (place for place, line in enumerate(report.lines) if ORIGINAL in line.text), default=0
    )
    framed = False
    for line in report.lines[begin:]:
        framed = framed or read_frame(line.text) is not None or HEADER in line.text
        if framed and is_headline(line.text) and not _CAUGHT.search(line.text):
            return line
    return report.headline()


def _frames(report: Report) -> list[Frame]:
    """Return the frames of the traceback in which the first error was raised."""
    begin = max(
        (place for place, line in enumerate(report.lines) if ORIGINAL in line.text), default=0
    )
    frames: list[Frame] = []
    for line in report.lines[begin:]:
        known = read_frame(line.text)
        if known is not None:
            frames.append(Frame(known[0], known[1], known[2], ""))
        elif frames and is_headline(line.text):
            break
    return frames


def _last_frame(report: Report) -> Frame | None:
    frames = _frames(report)
    return frames[-1] if frames else None


def _place(report: Report, *, own: bool = False) -> str:
    """Return where the first error was raised: the user's innermost line, else the innermost.

    With ``own`` there is no else.
    """
    frames = _frames(report)
    if not frames:
        return ""
    frame = next(filter(is_own, reversed(frames)), frames[-1])
    if own and not is_own(frame):
        return ""
    short = re.split(r"[/\\]", frame.file)[-1]
    caught = _CAUGHT.search("\n".join(line.text for line in report.lines))
    where = f", in {caught['where']}" if caught is not None else ""
    return f" ({short}, line {frame.line}, in {frame.name}{where})"


def _ranks(line: Line) -> set[int]:
    return set() if line.rank is None else {line.rank}


def _without_consequences(hits: Sequence[Hit], log: Log) -> list[Hit]:
    """Leave out what follows from a cause that is known, or from a program's end."""
    if any(hit.entry.name in _WHY_LATE for hit in hits):
        hits = [hit for hit in hits if hit.entry.name != "worker-timeout"]
    if any(hit.entry.role == "cause" for hit in hits):
        return [hit for hit in hits if hit.entry.role != "symptom"]
    if any(map(_failed, log.reports)):
        return list(hits)
    # nothing failed but threads and finalizers, as they do when a program ends
    return [
        hit
        for hit in hits
        if hit.entry.role != "symptom" or log.reports[hit.report].kind != "aside"
    ]


def _ordered(hits: Sequence[Hit]) -> list[Hit]:
    """Put what ended the program first: the last report, and in it the first error.

    Of symptoms only the earliest is kept, which is the nearest to the cause, and what others say of
    a failure only where nothing else is known.
    """
    causes, symptoms, notes = (
        [hit for hit in hits if hit.entry.role == role] for role in ("cause", "symptom", "note")
    )
    causes.sort(key=lambda hit: (-hit.report, hit.line.number))
    symptoms.sort(key=lambda hit: (hit.entry.code in _OF_OTHERS, hit.report, hit.line.number))
    notes.sort(key=lambda hit: (hit.entry.severity == "info", hit.line.number))
    return [*causes, *symptoms[:1], *notes]


def _without_doubles(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out what an entry of the same code says too, of the same line or of another."""
    kept: list[Hit] = []
    for hit in hits:
        same = next(
            (
                known
                for known in kept
                if known.entry.code == hit.entry.code
                and (known.line.number == hit.line.number or known.entry.code not in _OF_MANY_KINDS)
            ),
            None,
        )
        if same is None:
            kept.append(hit)
        else:
            same.report = max(same.report, hit.report)
    return kept


_OF_MANY_KINDS = ("unknown", "crash.data_corrupt", "crash.not_picklable", "crash.host_oom")
"""Codes whose entries say different things of different lines."""


def _explanation(hit: Hit, log: Log, facts: Facts) -> Explanation:
    entry = hit.entry
    machine, evidence = say(entry.figures, facts)
    what = fill(entry.what, hit.values) + pending_words(entry.name, facts)
    if entry.in_own_code and hit.report < len(log.reports):
        report = log.reports[hit.report]
        what += _place(report, own=True) if report.kind == "traceback" else ""
    return Explanation(
        name=entry.name,
        code=entry.code,
        severity=entry.severity,
        role=entry.role,
        what=what,
        why=fill(entry.why, hit.values),
        remedies=tuple(fill(remedy, hit.values) for remedy in entry.remedies),
        figures=entry.figures,
        machine=machine,
        evidence=evidence,
        quote=quote(hit.line.text),
        line=hit.line.number,
        times=hit.times,
        ranks=tuple(sorted(hit.ranks)),
    )


def entries() -> tuple[Entry, ...]:
    """Return all entries, those that are seen from the shape of a text too."""
    return (*CATALOGUE, *seen.ENTRIES)
