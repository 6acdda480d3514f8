"""The page of `leak_faults.py`, made from what was run. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec
import tables
from leak_cases import FAULTS, PATTERNS, WAYS, Fault, Way

_NAMES = {each.name: each for each in FAULTS}
_GOAL = 0.005
"""The share of the time that looking is to stay below."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and what was right.

    ``expected`` is the code that had to come, "" of a harmless pattern; ``also`` those that may
    stand beside it; ``line`` where Python allocates, ``None`` where it does not. ``leaks`` are the
    findings that warn, ``others`` the information; ``place`` and ``chain`` the leading cause.
    ``watched`` and ``looking`` are the watch's seconds and those of its looks, ``seconds`` all of
    it with the second pass.
    """

    name: str
    method: str
    workers: int
    kept: bool
    size: int
    repeat: int
    expected: str
    also: tuple[str, ...]
    line: int | None
    leaks: tuple[str, ...]
    others: tuple[str, ...]
    place: str
    chain: tuple[str, ...]
    epochs: int
    watched: float
    looking: float
    seconds: float
    error: str = ""

    @property
    def cost(self) -> float:
        """Return the share of the watch that its looks took."""
        return self.looking / self.watched if self.watched else 0.0

    @property
    def way(self) -> Way:
        """Return how its workers were started."""
        return Way(self.method, self.workers, self.kept)


def is_found(result: Result) -> bool:
    """Tell whether the fault's own kind was reported, and no other."""
    allowed = {result.expected, *result.also}
    is_there = result.expected in result.leaks or (
        result.expected in INFORMATION and result.expected in result.others
    )
    return not result.error and is_there and allowed.issuperset(result.leaks)


INFORMATION = frozenset({"memory.allocator_pages"})
"""What grows and is told as information."""


def has_line(result: Result) -> bool:
    """Tell whether the line is right; true where there is none to be told."""
    if result.line is None:
        return True
    return result.place == f"{_NAMES[result.name].file}:{result.line}"


def is_right(result: Result) -> bool:
    """Tell whether everything about a run is right."""
    if not result.expected:
        return not result.leaks and not result.error
    return is_found(result) and has_line(result)


def line(result: Result) -> str:
    """Return a run in a line of text, for whom waits."""
    mark = "right" if is_right(result) else "WRONG"
    size = f" {result.size} B" if result.size else ""
    found = ", ".join(result.leaks or result.others) or result.error
    place = f" at {result.place}" if result.place else ""
    return (
        f"{mark}: {result.name}{size}, {result.way.name}: {found}{place}, {result.epochs} epochs, "
        f"{result.watched:.1f} s watched ({result.looking:.2f} looking), "
        f"{result.seconds:.1f} in all"
    )


def page(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the page's parts."""
    faults = [each for each in results if each.expected]
    patterns = [each for each in results if not each.expected]
    parts = [
        "# feedrate leaks: every fault, and every harmless pattern",
        tables.made_by("leak_faults.py"),
        _summary(faults, patterns),
    ]
    if faults:
        parts += ["## Faults", _ABOUT_FAULTS, _fault_table(faults)]
    if patterns:
        parts += ["## Harmless patterns", _ABOUT_PATTERNS, _pattern_table(patterns)]
    wrong = [each for each in results if not is_right(each)]
    if wrong:
        parts += ["## What was wrong", "\n".join(f"- {_complaint(each)}" for each in wrong)]
    parts += ["## What looking took", _costs(results)]
    return tuple(parts)


_ABOUT_FAULTS = (
    "A cell says whether the kind was right (✓) and no other was reported beside it, the line that "
    "allocates it (L; – where Python allocates nothing), after how many epochs the verdict came "
    "and how many seconds the watch and the whole took, the second pass included. An empty cell "
    "was not run yet. Seconds are as seen, on a machine that did other work meanwhile."
)
_ABOUT_PATTERNS = "False alarms of all runs, and the median of the epochs and seconds of a watch."


def _summary(faults: Sequence[Result], patterns: Sequence[Result]) -> str:
    lined = [each for each in faults if each.line is not None]
    texts = []
    if faults:
        found, named = sum(map(is_found, faults)), sum(map(has_line, lined))
        texts.append(
            f"{found} of {len(faults)} injected faults were found as what they are; of the "
            f"{len(lined)} that Python allocates, {named} with file and line."
        )
    if patterns:
        alarms = sum(not is_right(each) for each in patterns)
        times = len({(each.name, each.way) for each in patterns})
        texts.append(
            f"{alarms} false alarms in {len(patterns)} runs of harmless patterns ({times} pairs of "
            "a pattern and a way of starting workers)."
        )
    return " ".join(texts)


def _ways(results: Iterable[Result]) -> list[Way]:
    there = {each.way for each in results}
    return [way for way in WAYS if way in there]


def _fault_table(results: Sequence[Result]) -> str:
    ways = _ways(results)
    rows = []
    for fault in FAULTS:
        for size in fault.sizes:
            own = [each for each in results if (each.name, each.size) == (fault.name, size)]
            if own:
                cells = [_cell(fault, way, [e for e in own if e.way == way]) for way in ways]
                rate = f"{size:,} B" if len(fault.sizes) > 1 else ""
                rows.append([fault.says, rate, fault.code.partition(".")[2], *cells])
    return tables.table(["fault", "an item", "kind", *(way.name for way in ways)], rows)


def _cell(fault: Fault, way: Way, results: Sequence[Result]) -> str:
    if not fault.applies(way):
        return "not possible"
    if not results:
        return ""
    found = "✓" if all(map(is_found, results)) else "✗"
    place = "–" if results[0].line is None else "L" if all(map(has_line, results)) else "no line"
    epochs = statistics.median(each.epochs for each in results)
    watched = statistics.median(each.watched for each in results)
    whole = statistics.median(each.seconds for each in results)
    return f"{found} {place} · {epochs:g} · {watched:.0f} / {whole:.0f} s"


def _pattern_table(results: Sequence[Result]) -> str:
    ways = _ways(results)
    rows = []
    for pattern in PATTERNS:
        own = [each for each in results if each.name == pattern.name]
        if own:
            cells = [_calm_cell([each for each in own if each.way == way]) for way in ways]
            rows.append([pattern.says, *cells])
    return tables.table(["pattern", *(way.name for way in ways)], rows)


def _calm_cell(results: Sequence[Result]) -> str:
    if not results:
        return ""
    alarms = sum(not is_right(each) for each in results)
    epochs = statistics.median(each.epochs for each in results)
    watched = statistics.median(each.watched for each in results)
    undecided = sum("memory.undecided" in each.others for each in results)
    open_ones = f", {undecided} undecided" if undecided else ""
    return f"{alarms} of {len(results)}{open_ones} · {epochs:g} · {watched:.0f} s"


def _costs(results: Sequence[Result]) -> str:
    """Say which share of the watches their own looks took, and where it was more than the goal."""
    shares = [each.cost for each in results if each.watched]
    if not shares:
        return "Nothing was watched."
    dear = [each for each in results if each.cost > _GOAL]
    text = (
        f"{statistics.median(shares):.2%} of the watch in the median run; the goal is "
        f"{_GOAL:.1%}, and {len(dear)} of {len(shares)} took more."
    )
    if not dear:
        return text
    lines = [f"- {_named(each)}: {each.cost:.2%} of {each.watched:.1f} s" for each in dear]
    return "\n".join([f"{text} A watch ends sooner where a limit would come near.", "", *lines])


def _named(result: Result) -> str:
    says = _NAMES[result.name].says if result.name in _NAMES else result.name
    size = f" at {result.size:,} bytes an item" if result.size else ""
    return f"{says}{size}, {result.way.name}"


def _complaint(result: Result) -> str:
    what = result.error or f"reported {', '.join(result.leaks or result.others) or 'nothing'}"
    if is_found(result) and not has_line(result):
        what = f"line {result.line} was told as {result.place or 'nothing'}"
    return f"{_named(result)}: {what}"
