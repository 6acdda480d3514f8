"""A log as reports: each traceback with its chain, and what stands between them.

Terminals, launchers and containers put their own in front of every line; that is taken off, and
the rank that it names is kept. Lines of one rank are read together, however they are interleaved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["traceback", "aside", "plain"]
"""An aside is a traceback that ended nothing: of a thread, of a finalizer, of the logger itself."""

HEADER = "Traceback (most recent call last)"
ORIGINAL = "Original Traceback"
_JOINTS = (
    "The above exception was the direct cause",
    "During handling of the above exception",
)
_ASIDES = (
    "Exception ignored in",
    "Exception in thread",
    "--- Logging error ---",
    "Error in atexit",
)
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_LINE_ENDS = re.compile(r"\r?\n")
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ \t]"
    r"(?:std(?:out|err) [FP] )?"
)
_PREFIXES = (
    re.compile(r"\[(?:default|rank)?(?P<rank>\d+)\]: ?"),  # torchrun, and torch itself
    re.compile(r"\[\d+,(?:mpirank:)?(?P<rank>\d+)[^\]]*\]<std(?:err|out)>: ?"),  # mpirun
    re.compile(r"\((?:[\w.]+ )?pid=\d+(?:, ip=[\d.]+)?\) ?"),  # Ray
    re.compile(r" *(?P<rank>\d{1,4}): (?=Traceback|  File |\w+Error\b|RuntimeError)"),  # srun -l
    re.compile(r"[\w.-]+ +\| "),  # docker compose
    re.compile(r"E {3,}"),  # pytest
    re.compile(r"\|? ?│ ?"),  # rich
    _STAMP,
)
_AFTERWARDS = 60
"""How many lines after the last frame still belong to a traceback: long messages have that many."""
_FRAME = re.compile(
    r'^\s*File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<name>.+))?$'
    r"|^\s*(?:File )?(?P<file2>[^\s:]+\.py):(?P<line2>\d+),? in (?P<name2>[\w<>]+)"
)
_HEADLINE = re.compile(
    r"^(?:[\w.]+\.)?(?P<kind>[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|StopIteration)|"
    r"StopIteration|Empty|Full|timeout|error|BadZipFile)(?::\s*(?P<message>.*))?$"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line without what was put in front of it. ``number`` counts from 1 in the whole text."""

    number: int
    text: str
    rank: int | None = None


@dataclass(slots=True)
class Report:
    """Lines that belong together, in their order."""

    kind: Kind
    lines: list[Line] = field(default_factory=list)

    @property
    def last_number(self) -> int:
        """Return the number of its last line."""
        return self.lines[-1].number if self.lines else 0

    def around(self, place: int, before: int = 200, after: int = _AFTERWARDS) -> str:
        """Return the text around one of its lines."""
        lines = self.lines[max(0, place - before) : place + after + 1]
        return "\n".join(line.text for line in lines)

    def headline(self) -> Line | None:
        """Return the line with the last error's type and message; ``None`` if none has one."""
        if self.kind == "plain":
            return None
        framed = [place for place, line in enumerate(self.lines) if is_frame(line.text)]
        begin = framed[-1] + 1 if framed else 0
        for line in self.lines[begin:]:
            if is_headline(line.text):
                return line
        # a type that is not called an error is the first line at the margin below the frames
        return next(
            (line for line in self.lines[begin:] if re.match(r"[A-Za-z_][\w.]*(?::|$)", line.text)),
            None,
        )


@dataclass(frozen=True, slots=True)
class Log:
    """A text as reports, in the order in which they end. ``lines`` counts all of its lines."""

    reports: tuple[Report, ...]
    lines: int


def is_frame(text: str) -> bool:
    """Tell whether a line names a file, a line in it and a function."""
    return _FRAME.match(text) is not None


def is_headline(text: str) -> bool:
    """Tell whether a line begins with an exception's type."""
    return _HEADLINE.match(text) is not None


def headline_parts(text: str) -> tuple[str, str]:
    """Return an exception's type and message from its line; ("", the text) if it is none."""
    found = _HEADLINE.match(text)
    return (found["kind"], found["message"] or "") if found else ("", text.strip())


def read_frame(text: str) -> tuple[str, int, str] | None:
    """Return the file, line and function that a line names."""
    found = _FRAME.match(text)
    if found is None:
        return None
    if found["file"] is not None:
        return found["file"], int(found["line"]), found["name"] or "<module>"
    return found["file2"], int(found["line2"]), found["name2"]


def read_log(text: str) -> Log:
    """Return a text as reports. It never fails, whatever the text is."""
    streams: dict[int | None, list[Line]] = {}
    total = 0
    for number, whole in enumerate(_LINE_ENDS.split(text), 1):
        total = number
        # what a progress bar draws over is no text of its own
        for part in _TERMINAL.sub("", whole).split("\r"):
            line = _bare(part, number)
            streams.setdefault(line.rank, []).append(line)
    reports = [report for lines in streams.values() for report in _reports(lines)]
    reports.sort(key=lambda report: report.last_number)
    return Log(tuple(reports), total - (1 if text.endswith("\n") or not text else 0))


def _bare(text: str, number: int) -> Line:
    rank: int | None = None
    for _ in range(3):
        for prefix in _PREFIXES:
            found = prefix.match(text)
            if found is not None:
                text = text[found.end() :]
                if rank is None and "rank" in prefix.groupindex:
                    rank = int(found["rank"])
                break
        else:
            break
    return Line(number, text.rstrip(" │\t\x00"), rank)


def _reports(lines: list[Line]) -> list[Report]:
    reports = [Report("plain")]
    joint = False
    since_frame = 0
    for place, line in enumerate(lines):
        current = reports[-1]
        if HEADER in line.text and ORIGINAL not in line.text and not joint:
            aside = place > 0 and _introduces_aside(lines[place - 1].text)
            introduction = [current.lines.pop()] if aside and current.lines else []
            current = Report("aside" if aside else "traceback", introduction)
            reports.append(current)
        elif current.kind != "plain":
            since_frame = 0 if is_frame(line.text) else since_frame + 1
            if since_frame > _AFTERWARDS or line.text.startswith(_ASIDES):
                current = Report("plain")
                reports.append(current)
        if HEADER in line.text:
            since_frame = 0
        if line.text.strip():
            joint = line.text.strip().startswith(_JOINTS)
        current.lines.append(line)
    return [report for report in reports if any(line.text.strip() for line in report.lines)]


def _introduces_aside(text: str) -> bool:
    return any(aside in text for aside in _ASIDES)  # behind a progress bar, mostly
