"""Puts this machine's sweep beside the published one: ``python benchmarks/published.py``.

Reads results/published.json, which ``feedrate bench fashion-mnist`` made, and the published
figures in reference/published_sweep.json; writes published.md. Held against the published figures
is torch's loader; what feedrate's did beside it has a section of its own, from
results/published_loaders.json (``--loaders torch,feedrate --workers 0,1,2``). Every figure on the
page comes from one of the three files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import published_differences as differences
import published_figures as figures
import published_loaders as loaders

from feedrate import store, units
from feedrate.analysis.conditions import Condition
from feedrate.analysis.plateau import balanced, fastest_region, plateau
from feedrate.analysis.stats import Summary, verdict_same
from feedrate.analysis.summary import Point, compare_rates
from feedrate.errors import FeedrateError
from feedrate.experiments.published import PIN_MEMORY, REPEATED, SWEEP
from feedrate.records import Metadata, Suite

HERE = Path(__file__).parent
RESULT = HERE / "results" / "published.json"
BOTH = HERE / "results" / "published_loaders.json"
PAGE = HERE / "published.md"
ABOUT = (
    "Made by `python benchmarks/published.py` from `benchmarks/results/published.json`, "
    "`benchmarks/results/published_loaders.json` and "
    "`benchmarks/reference/published_sweep.json`. Rates are those of warm epochs, in images/s: the "
    "epoch after the first, on the same workers. Several runs are given as median (min–max)."
)
NONE = "–"
_PIN_WORDS = {
    "same": "no difference",
    "higher": "faster on",
    "lower": "slower on",
    "undecided": "undecided",
}

Row = Sequence[str]
WORDS, FIGURES = "---", "---:"  # how Markdown says: to the left, to the right


def render(suite: Suite, published: figures.Published, both: Suite | None = None) -> str:
    """Return the page as Markdown; ``both`` is the run of both loaders, where it is another."""
    measured = {condition.name: condition for condition in loaders.torchs(suite)}
    parts = [
        "# The published worker sweep, and the same on another machine",
        ABOUT,
        _hosts(suite.metadata, published.host),
    ]
    for name, there in published.conditions.items():
        here = measured.get(name)
        parts.append(f"## {name.capitalize()}: {there.transform}")
        if here is None:
            parts.append("Not measured here.")
            continue
        parts += [_sweep(here, there), _repeated(here, there), _pin_memory(here, there)]
    parts += [
        "## Conclusions",
        _conclusions(measured, published),
        loaders.beside(both or suite),
        "## What differs, and why",
        "\n".join(f"- {line}" for line in differences.explain(suite, published)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _hosts(here: Metadata, there: figures.Host) -> str:
    cpus = f"{units.number(here.usable_cpus)} usable of {here.logical_cpus} logical CPUs"
    return _table(
        ("", "published", "here"),
        [
            ("CPU", there.cpu, f"{here.cpu}, {cpus}"),
            ("accelerator", there.gpu, here.accelerator or "none"),
            ("system", there.os, here.os),
            ("torch", there.torch, here.torch_version or "unknown"),
            ("measured", "", f"{here.started_at}, feedrate {here.feedrate_version}"),
            ("target", "", here.target),
        ],
        WORDS,
    )


def _sweep(here: Condition, there: figures.Condition) -> str:
    """Speed-ups are taken within the sweep: between series the machine may have changed."""
    ours = _part(here, SWEEP)
    base = ours[0].rates if 0 in ours else None
    rows = []
    for count in sorted({*ours, *there.sweep}):
        rates = ours[count].rates if count in ours else None
        theirs = there.sweep.get(count)
        speedup = None if theirs is None else theirs / there.sweep[0]
        own_speedup = None if rates is None or base is None else rates.median / base.median
        rows.append(
            (
                str(count),
                _or_none(theirs, units.rate),
                _spread(rates, units.rate),
                _or_none(speedup, units.ratio),
                _or_none(own_speedup, units.ratio),
                _or_none(_quotient(own_speedup, speedup), units.ratio),
                _or_none(_first_over_warm(there.times.get(count)), units.ratio),
                _or_none(_own_first_over_warm(ours.get(count)), units.ratio),
            )
        )
    head = (
        "workers",
        "published",
        "here",
        "published, over 0 workers",
        "here, over 0 workers",
        "here over published",
        "first over warm epoch, published",
        "first over warm epoch, here",
    )
    return _table(head, rows)


def _repeated(here: Condition, there: figures.Condition) -> str:
    ours = _part(here, REPEATED)
    if not ours:
        return ""
    runs = sorted({len(point.repeats) for point in ours.values()})
    rows = []
    for count in sorted({*ours, *there.repeated}):
        theirs = there.repeated.get(count)
        rows.append(
            (
                str(count),
                NONE if theirs is None else _of_published(theirs, units.rate),
                _spread(ours[count].rates if count in ours else None, units.rate),
            )
        )
    times = "–".join(str(n) for n in (runs if len(runs) == 1 else (runs[0], runs[-1])))
    published = f"published {max(s.n for s in there.repeated.values())}, " if there.repeated else ""
    title = f"Repeated in rotated order, runs of each: {published}here {times}."
    return f"{title}\n\n{_table(('workers', 'published', 'here'), rows)}"


def _pin_memory(here: Condition, there: figures.Condition) -> str:
    ours = {p.benchmark.settings.pin_memory: p for p in here.points if _is_part(p, PIN_MEMORY)}
    if not ours or not there.pin_memory:
        return ""
    workers = {point.workers for point in ours.values()}
    rows = [
        (
            "on" if pin else "off",
            _of_published(there.pin_memory[pin], units.seconds),
            _spread(ours[pin].epoch_seconds if pin in ours else None, units.seconds),
        )
        for pin in (False, True)
    ]
    title = (
        f"`pin_memory`, seconds of a warm epoch: published with {there.pin_workers} workers, here "
        f"with {', '.join(map(str, sorted(workers)))}."
    )
    return f"{title}\n\n{_table(('pin_memory', 'published', 'here'), rows)}"


def _conclusions(measured: dict[str, Condition], published: figures.Published) -> str:
    rows: list[Row] = []
    for name, there in published.conditions.items():
        here = measured.get(name)
        if here is None or not here.curve:
            continue
        theirs = there.conclusions
        rows += [
            (f"{name}: plateau start", f"{theirs.plateau_start} workers", _plateau(here)),
            (f"{name}: fastest region", _counts(theirs.fastest_region), _fastest(here)),
            (
                f"{name}: balanced choice",
                _or_none(theirs.balanced, lambda count: f"{count:.0f} workers"),
                f"{balanced(here.curve)} workers",
            ),
        ]
        if theirs.pin_memory is not None:
            rows.append((f"{name}: pin_memory", theirs.pin_memory, _pin_verdict(here)))
    return _table(("", "published", "here"), rows, WORDS)


def _plateau(here: Condition) -> str:
    found = plateau(here.curve, here.tolerance)
    if found.at_edge:
        return f"not reached: {found.start} workers, the most measured, still gain"
    return f"{found.start} workers{'' if found.decided else ', not settled by the runs'}"


def _fastest(here: Condition) -> str:
    return _counts(fastest_region(here.curve, here.tolerance))


def _pin_verdict(here: Condition) -> str:
    points = {p.benchmark.settings.pin_memory: p for p in here.points if _is_part(p, PIN_MEMORY)}
    if len(points) < 2:
        return NONE
    if here.metadata.accelerator is None:
        return "cannot matter: without an accelerator torch ignores it"
    ratio = compare_rates(points[True], points[False])
    if ratio is None:
        return NONE
    words = _PIN_WORDS[verdict_same(ratio, here.tolerance)]
    if ratio.interval is None:
        return f"{words}: on over off {units.ratio(ratio.value)}"
    interval = f"{units.ratio(ratio.interval.low)}–{units.ratio(ratio.interval.high)}"
    return f"{words}: on over off {units.ratio(ratio.value)} ({interval})"


def _part(here: Condition, part: str) -> dict[int, Point]:
    return {point.workers: point for point in here.points if _is_part(point, part)}


def _is_part(point: Point, part: str) -> bool:
    return point.benchmark.part == part and point.rates is not None


def _first_over_warm(times: figures.Times | None) -> float | None:
    return None if times is None else times.cold / times.warm


def _own_first_over_warm(point: Point | None) -> float | None:
    if point is None or point.cold_seconds is None or point.epoch_seconds is None:
        return None
    return point.cold_seconds.median / point.epoch_seconds.median


def _quotient(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b


def _or_none(value: float | None, words: Callable[[float], str]) -> str:
    return NONE if value is None else words(value)


def _spread(values: Summary | None, words: Callable[[float], str]) -> str:
    if values is None:
        return NONE
    if values.n == 1:
        return words(values.median)
    return f"{words(values.median)} ({words(values.low)}–{words(values.high)})"


def _of_published(values: figures.Spread, words: Callable[[float], str]) -> str:
    return f"{words(values.median)} ({words(values.low)}–{words(values.high)})"


def _counts(counts: Iterable[int]) -> str:
    return f"{', '.join(map(str, counts))} workers" if counts else NONE


def _table(head: Row, rows: Iterable[Row], align: str = FIGURES) -> str:
    """Return a Markdown table; ``align`` is how all columns but the first stand."""
    lines = [head, (WORDS, *(align,) * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    """Write the page and return the exit status."""
    try:
        suite, both = store.load(RESULT), store.load(BOTH)
    except FeedrateError as error:
        print(
            f"{error}\nMake it with: feedrate bench fashion-mnist --data-dir DIR --output {RESULT}"
            f"\nand: feedrate bench fashion-mnist --data-dir DIR --loaders torch,feedrate "
            f"--workers 0,1,2 --output {BOTH}",
            file=sys.stderr,
        )
        return error.exit_code
    PAGE.write_text(render(suite, figures.read(), both), encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
