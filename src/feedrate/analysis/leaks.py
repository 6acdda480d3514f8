"""The verdicts on a watch: what grows, of what kind, until when; what only seems to; what is open.

The codes are those of the family ``memory``. A leak is a finding of severity "warning", or "error"
where a limit is reached within a day; all else is information.
"""

from __future__ import annotations

from collections.abc import Iterable

from feedrate import units
from feedrate.analysis.copied import is_reading, of_other_writes, of_reading
from feedrate.analysis.copy_on_write import copy_on_write
from feedrate.analysis.growing import everything
from feedrate.analysis.grown import Grown
from feedrate.analysis.growth import FEWEST_EPOCHS
from feedrate.analysis.harmless import harmless
from feedrate.analysis.leak_words import IN_ONE_PROCESS, ONE_PROCESS, WORDS, amount, begin
from feedrate.analysis.phases import epoch_items
from feedrate.analysis.wording import figure, listed, sentence
from feedrate.memory_records import GrowthCause, MemoryWatch
from feedrate.records import Evidence, Finding, Severity

SOON_SECONDS = 24 * 3600
HARMLESS = frozenset(
    {
        "memory.allocator_pages",
        "memory.bounded_cache",
        "memory.device_cache",
        "memory.warm_up",
    }
)
_ORDER = {"error": 0, "warning": 1, "info": 2}


def judge(watch: MemoryWatch) -> tuple[Finding, ...]:
    """Return all findings of a watch, those that need action first.

    Among them is always one of: a kind of growth or of copies, ``memory.warm_up``,
    ``memory.undecided``, ``memory.no_growth``.
    """
    if not watch.looks:
        return ()
    figures = everything(watch)
    if not figures:
        return (_too_short(watch),)
    copied = copy_on_write(watch)
    found = [_grows(watch, each) for each in figures if each.is_growing]
    if copied is not None and is_reading(watch, copied):
        found.append(of_reading(copied))
    is_open = [each for each in figures if each.growth.verdict == "undecided"]
    if may_be_told := [each for each in is_open if _may_be_told(each)]:
        found.append(_undecided(watch, may_be_told))
    if untold := [each for each in is_open if not _may_be_told(each)]:
        found.append(_untold(watch, untold))
    calm = [each for each in figures if each.growth.verdict == "none"]
    if calm and not found:
        found.append(_no_growth(watch, calm))
    if copied is not None and not is_reading(watch, copied):
        found.append(of_other_writes(watch, copied))
    found += harmless(watch, figures)
    return tuple(sorted(found, key=lambda each: _ORDER[each.severity]))


def is_leak(finding: Finding) -> bool:
    """Tell whether a finding says that memory, descriptors or processes grow."""
    return finding.code.startswith("memory.") and finding.severity != "info"


def epochs_wanted(watch: MemoryWatch) -> int | None:
    """Return how many more epochs the verdicts need, ``None`` where none is open.

    Stretches and lives are turned into epochs; it is 1 at least.
    """
    more = [
        _epochs(watch, each)
        for each in everything(watch)
        if each.growth.verdict == "undecided" and _may_be_told(each)
    ]
    return max(more, default=None)


def _grows(watch: MemoryWatch, made: Grown) -> Finding:
    words = WORDS[made.code]
    end = words.end if watch.num_workers or made.code not in IN_ONE_PROCESS else ONE_PROCESS
    how = f" until it is full: {full}, as it is by now" if (full := _full(made)) else None
    title = f"{begin(made)}{how or f' by {_rate(made)}{_until(made)}'}. {end}"
    has_line = made.cause is not None and made.cause.file is not None
    if made.cause is not None and has_line:
        title += f" {_place(made.cause)}"
    return Finding(
        code=made.code,
        severity=_severity(watch, made),
        title=sentence(title),
        evidence=_evidence(made),
        remedy=words.at_line if has_line and words.at_line else words.remedy,
    )


def _severity(watch: MemoryWatch, made: Grown) -> Severity:
    if not _fits(watch, made):
        return "error"
    if made.code in HARMLESS or (made.code == "memory.pinned_cache" and _levels_off(made)):
        return "info"
    when = made.forecast
    soon = when is not None and when.seconds is not None and when.seconds < SOON_SECONDS
    return "error" if soon else "warning"


def _fits(watch: MemoryWatch, made: Grown) -> bool:
    """Whether what levels off does so before the memory ends."""
    curve, left = made.growth.curve, watch.room.memory
    if not _levels_off(made) or curve is None or left is None or made.unit != "bytes":
        return True
    return curve.remaining * max(1, made.processes) <= left


def _rate(made: Grown) -> str:
    each = made.processes or 1
    of = " each" if each > 1 else ""
    if made.per_epoch is None:
        return f"{amount(made.per_item, made.unit)} an item"
    per_epoch = amount(max(0.0, made.per_epoch) / each, made.unit)
    if made.within_epoch:
        return f"{per_epoch} over each epoch{of}, given back when its workers end"
    return f"{per_epoch} an epoch{of} ({amount(made.per_item, made.unit)} an item)"


def _until(made: Grown) -> str:
    curve = made.growth.curve
    if _levels_off(made) and curve is not None:
        start = made.series.values[0]
        rise = amount(max(0.0, curve.final - start), made.unit)
        left = amount(max(0.0, curve.remaining), made.unit)
        if made.code == "memory.bounded_cache":
            each = " each" if made.processes > 1 else ""
            return f" until it is full: about {rise} above the start{each}, {left} from here"
        return f", by less each time: it levels off at {rise} above the start, {left} from here"
    when = made.forecast
    if when is None:
        return "" if made.within_epoch else ", with no end in sight"
    if when.left == 0:
        return f"; the limit of {when.limit} is reached"
    count, what = (when.items, "item") if when.epochs is None else (when.epochs, "epoch")
    more = max(1, round(count))
    pace = "" if when.seconds is None else f" ({units.duration(when.seconds)} at this pace)"
    return (
        f"; the limit of {when.limit} ({amount(when.left, made.unit)} left) is reached after about "
        f"{units.number(more)} more {what}{'' if more == 1 else 's'}{pace}"
    )


def _full(made: Grown) -> str:
    """Return what it has taken that has levelled off by now, "" where it has not."""
    curve = made.growth.curve
    if not _levels_off(made) or curve is None or curve.remaining > 0:
        return ""
    rise = amount(max(0.0, curve.final - made.series.values[0]), made.unit)
    return f"{rise} each" if made.processes > 1 else rise


def _place(cause: GrowthCause) -> str:
    more = f"{cause.count:,} more objects of type {cause.type_name}"
    objects = f" ({more})" if cause.type_name else ""
    held = f", held by {cause.holder}" if cause.holder else ""
    return f"It is allocated at {cause.file}:{cause.line}{objects}{held}."


def _evidence(made: Grown) -> tuple[Evidence, ...]:
    unit = "bytes" if made.unit == "bytes" else ""
    rate = Evidence(
        name=f"growth of the {made.figure} per item",
        value=made.per_item,
        unit=unit,
        low=made.interval.low,
        high=made.interval.high,
    )
    found = [rate]
    if made.per_epoch is not None:
        found.append(figure("growth per epoch", made.per_epoch, unit))
    found.append(figure(f"values behind the verdict ({made.series.per})", made.growth.values, ""))
    if made.forecast is not None:
        found.append(
            figure(f"items until {made.forecast.limit} ends", made.forecast.items, "items")
        )
    return tuple(found)


def _undecided(watch: MemoryWatch, is_open: Iterable[Grown]) -> Finding:
    listed = list(is_open)
    worst = max(listed, key=lambda each: _epochs(watch, each))
    more = _epochs(watch, worst)
    return Finding(
        code="memory.undecided",
        severity="info",
        title=f"Not decided whether the {worst.figure} grows: about {units.number(more)} more "
        f"epoch{'' if more == 1 else 's'} would tell.",
        evidence=tuple(
            figure(
                f"{each.figure}: growth that could hide, per item", _hidden_per_item(each), "bytes"
            )
            for each in listed
            if each.growth.hidden is not None and each.unit == "bytes"
        ),
        remedy=f"Watch longer: raise epochs (--epochs) by {units.number(more)}, or --seconds; a "
        "script has to run that long by itself.",
    )


def _untold(watch: MemoryWatch, untold: Iterable[Grown]) -> Finding:
    once = "Make the loader once and not for each epoch"
    names: dict[str, list[str]] = {}
    for each in untold:
        name, _, whose = each.figure.partition(" of ")
        names.setdefault(whose, []).append(name)
    figures = listed(f"{listed(each)} of {whose}" for whose, each in names.items())
    return Finding(
        code="memory.undecided",
        severity="info",
        title=f"Not decided whether workers grow ({figures}): what they take is given back when "
        "they end with each epoch, and an epoch has too few batches to tell growth from what a "
        "start takes.",
        evidence=(),
        remedy=f"{once if watch.persistent_workers else 'Watch with persistent_workers=True'}, so "
        "that workers live on; or have more batches in an epoch.",
    )


def _too_short(watch: MemoryWatch) -> Finding:
    looks = f"{len(watch.looks)} look{'' if len(watch.looks) == 1 else 's'}"
    return Finding(
        code="memory.undecided",
        severity="info",
        title=f"Not decided whether memory grows: the loop was over after {looks}.",
        evidence=(figure("looks", len(watch.looks), ""),),
        remedy=f"Let the loop run for {FEWEST_EPOCHS} epochs or more.",
    )


def _may_be_told(made: Grown) -> bool:
    """Tell whether more epochs would decide what is open."""
    return made.growth.more is not None


def _no_growth(watch: MemoryWatch, calm: Iterable[Grown]) -> Finding:
    listed = [each for each in calm if each.unit == "bytes"] or list(calm)
    hidden = max(listed, key=_hidden_per_item)
    items = epoch_items(watch) or hidden.series.items
    per = "epoch" if epoch_items(watch) else "stretch"
    most = amount(_hidden_per_item(hidden) * items, hidden.unit)
    return Finding(
        code="memory.no_growth",
        severity="info",
        title=f"No growth: at most {most} per {per} could hide below what "
        f"{units.number(max(1, watch.complete_epochs))} "
        f"epoch{'' if watch.complete_epochs <= 1 else 's'} can show.",
        evidence=tuple(
            figure(
                f"{each.figure}: growth that could hide, per item", _hidden_per_item(each), "bytes"
            )
            for each in listed
        ),
    )


def _hidden_per_item(made: Grown) -> float:
    return (made.growth.hidden or 0.0) * max(1, made.processes) / made.series.items


def _epochs(watch: MemoryWatch, made: Grown) -> int:
    """Return how many epochs more an open verdict needs."""
    more = made.growth.more or 1
    items = epoch_items(watch)
    if made.series.per == "life":
        return max(1, watch.complete_epochs)  # twice as many lives have twice as many parts
    if not items:
        return more
    return max(1, round(more * made.series.items / items))


def _levels_off(made: Grown) -> bool:
    return made.growth.verdict == "levels_off"
