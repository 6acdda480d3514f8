"""Figures and counts as the titles of findings say them: "62,103 items/s", "2.7 %", "8 and 12"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from feedrate import units
from feedrate.analysis.stats import Interval, Ratio, Summary, median_interval
from feedrate.records import Evidence

_FEW = 4


def rate(value: float) -> str:
    """Return items per second, with its unit."""
    return f"{units.rate(value)} items/s"


def percent(share: float) -> str:
    """Return a measured share of 1, which may be negative, as "2.7 %" or "34 %"."""
    value = 100 * share
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:,.0f}"
    return f"{text.replace('-0.0', '0.0').replace('-', '−')} %"


def limit(share: float) -> str:
    """Return a share that was set, as "3 %": no digit more than it has."""
    return f"{100 * share:g} %"


def change(ratio: Ratio) -> str:
    """Return by how much the ratio is above 1, with its interval where there is one."""
    text = percent(ratio.value - 1)
    return f"{text} ({span(ratio.interval)})" if ratio.interval is not None else text


def span(interval: Interval) -> str:
    """Return the interval of a ratio as changes from 1."""
    low, high = percent(interval.low - 1), percent(interval.high - 1)
    return f"{limit(interval.level)} interval {low} to {high}"


def workers(count: int) -> str:
    """Return "1 worker", "4 workers"."""
    return f"{count} worker{'' if count == 1 else 's'}"


def listed(names: Iterable[object]) -> str:
    """Return "8", "8 and 12", "8, 12 and 16"."""
    *most, last = [str(name) for name in names]
    return f"{', '.join(most)} and {last}" if most else last


def some_of(labels: Sequence[str], total: int) -> str:
    """Return the labels where there are few, else how many of how many settings they are."""
    return listed(labels) if len(labels) <= _FEW else f"{len(labels)} of {total} settings"


def sentence(text: str) -> str:
    """Return the text with a capital at its start, unless that is a name such as pin_memory."""
    first = text.split(maxsplit=1)[0] if text else ""
    return text if "_" in first else text[:1].upper() + text[1:]


def spread(figure: Summary | None, show: Callable[[float], str]) -> str:
    """Return " (median of 5 runs, 881 to 899 items/s)", or nothing for one run."""
    if figure is None or figure.n < 2:
        return ""
    low, high = show(figure.low), show(figure.high)
    number, _, unit = low.partition(" ")
    if high.endswith(f" {unit}"):
        low = number
    return f" (median of {figure.n} runs, {low} to {high})"


def median_of(name: str, figure: Summary | None, unit: str) -> Evidence | None:
    """Return the median as evidence, with its interval; ``None`` for no figure."""
    if figure is None:
        return None
    return _evidence(name, figure.median, unit, median_interval(figure.values))


def ratio_of(name: str, ratio: Ratio) -> Evidence:
    """Return the ratio as evidence, with its interval."""
    return _evidence(name, ratio.value, "ratio", ratio.interval)


def figure(name: str, value: float, unit: str) -> Evidence:
    """Return a figure that has no interval as evidence."""
    return Evidence(name=name, value=float(value), unit=unit)


def _evidence(name: str, value: float, unit: str, interval: Interval | None) -> Evidence:
    return Evidence(
        name=name,
        value=value,
        unit=unit,
        low=interval.low if interval is not None else None,
        high=interval.high if interval is not None else None,
    )
