"""Which entries of the catalogue are found in a log, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from feedrate.doctor.entry import Entry
from feedrate.doctor.log import Line, Log, Report
from feedrate.doctor.reading import TELLING

_LONGEST = 2000
"""Of a longer line only the beginning is looked at."""
_QUOTED = 160
_FIGURES = re.compile(r"\d+[.:]\d[\d.:]*|\d{5,}|0x[0-9a-f]+")
"""Figures that no entry asks for: measures, times, numbers of processes, addresses."""
_MOST_KINDS = 50_000
_COUNTED_ONLY = 100
"""From so many of the same entry on, further ones are counted without a look around them."""


@dataclass(slots=True)
class Hit:
    """An entry that was found. ``report`` is the number of the report that it was found in last,
    ``line`` where it stands first, ``values`` what its groups matched, the highest of figures.
    """

    entry: Entry
    report: int
    place: int
    line: Line
    values: dict[str, str]
    times: int = 1
    ranks: set[int] = field(default_factory=set)


def find(log: Log, catalogue: Sequence[Entry]) -> list[Hit]:
    """Return the entries that are found, each once, in the order in which they are found first."""
    finder = _Finder(catalogue)
    hits: dict[str, Hit] = {}
    for number, report in enumerate(log.reports):
        for place, line in enumerate(report.lines):
            text = line.text[:_LONGEST]
            if not any(word in text for word in TELLING):
                continue
            for entry in finder.candidates(text):
                hit = hits.get(entry.name)
                if hit is not None and hit.times >= _COUNTED_ONLY and "came" not in hit.values:
                    hit.times += 1
                    hit.report = number
                    continue
                values = _values(entry, text, report, place)
                if values is None:
                    continue
                if hit is None:
                    hits[entry.name] = hit = Hit(entry, number, place, line, values)
                else:
                    hit.times += 1
                    hit.report = number
                    hit.values = _highest(hit.values, values)
                if line.rank is not None:
                    hit.ranks.add(line.rank)
    return list(hits.values())


def is_known(text: str) -> bool:
    """Tell whether any entry of the catalogue has one of its texts in the line."""
    from feedrate.doctor.messages import CATALOGUE

    return any(re.search(pattern, text) for entry in CATALOGUE for pattern in entry.texts)


def quote(text: str) -> str:
    """Return a line as it is cited: without spaces around it, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


def fill(template: str, values: dict[str, str]) -> str:
    """Return a template with its names replaced; brackets that stay empty are left out."""
    text = template.format_map(_Values(values))
    return re.sub(r" \((?:pid |exit code |attribute )?\)", "", text)


class _Values(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return ""


class _Finder:
    """Searches lines, and remembers what was found in lines of the same kind."""

    def __init__(self, catalogue: Sequence[Entry]) -> None:
        self._patterns = [(entry, tuple(map(re.compile, entry.texts))) for entry in catalogue]
        self._known: dict[str, tuple[Entry, ...]] = {}

    def candidates(self, text: str) -> tuple[Entry, ...]:
        """Return the entries one of whose texts is in the line."""
        kind = _FIGURES.sub("#", text)
        found = self._known.get(kind)
        if found is None:
            found = tuple(
                entry
                for entry, patterns in self._patterns
                if any(pattern.search(text) for pattern in patterns)
            )
            if len(self._known) < _MOST_KINDS:
                self._known[kind] = found
        return found


def _values(entry: Entry, text: str, report: Report, place: int) -> dict[str, str] | None:
    """Return what the entry's groups match in a line, ``None`` where its surroundings forbid it."""
    if entry.near or entry.far:
        around = report.around(place)
        if entry.near and not re.search(entry.near, around):
            return None
        if entry.far and re.search(entry.far, around):
            return None
    for pattern in entry.texts:
        found = re.search(pattern, text)
        if found is not None:
            # signal and signal2 are one name, in patterns that exclude each other
            values = {
                name.rstrip("0123456789"): value.strip()
                for name, value in found.groupdict().items()
                if value is not None
            }
            return {**values, **_details(entry, report, place), "quote": quote(text)}
    return None


def _details(entry: Entry, report: Report, place: int) -> dict[str, str]:
    found = re.search(entry.details, report.around(place)) if entry.details else None
    return {} if found is None else {name: value or "" for name, value in found.groupdict().items()}


def _highest(one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    """Return the values of the later line where it counted further, else those of the first."""
    counted, more = one.get("came", ""), other.get("came", "")
    return other if counted.isdigit() and more.isdigit() and int(more) > int(counted) else one
