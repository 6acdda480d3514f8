"""The page of the torture's results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tables
from torture_memory import MIB
from torture_outcome import Outcome

_HEAD = [
    "workers started by",
    "seconds",
    "batches",
    "checks",
    "kills",
    "replaced",
    "forked readers",
    "kept at most, MiB",
    "arenas at most, MiB",
    "wrong",
    "arenas, MiB a minute",
    "private memory, MiB a minute",
    "descriptors a minute",
]

_TEXT = """\
{workers} workers, now and then two more or two fewer. Every batch is compared with what it has to \
be as it arrives, and again with what it was when it is dropped: from a replay buffer, in threads, \
in forked processes that look at it after the loop has let go, and after writes into it. Slopes \
are Theil–Sen with 95 % intervals, over looks at the loop's process once the buffer is full and \
{warm} batches have come, the first third of them left out. \
Arenas are larger than what is kept: workers have slots of many sizes, and a worker that was \
forked may still look at what was alive then."""


def write(outcomes: Sequence[Outcome], script: str, workers: int) -> None:
    """Write and print it."""
    faults = [f"- {each.config.method}: {fault}" for each in outcomes for fault in each.faults]
    tables.write(
        "torture.md",
        "# The arena under torture",
        tables.made_by(script),
        _TEXT.format(workers=workers, warm=outcomes[0].config.warm_batches),
        tables.table(_HEAD, [_row(outcome) for outcome in outcomes]),
        "\n".join(["Wrong:", "", *faults]) if faults else "Wrong: nothing.",
    )


def _most(sizes: Iterable[int]) -> str:
    return f"{max(sizes, default=0) / MIB:.0f}"


def _row(outcome: Outcome) -> list[str]:
    tally, config, flat = outcome.tally, outcome.config, outcome.trends

    def per_minute(name: str, unit: float) -> str:
        each = flat.get(name)
        if each is None:
            return "not known"
        low, mid, high = (60 * value / unit for value in (each.low, each.slope, each.high))
        return f"{mid:+.2f} ({low:+.2f} to {high:+.2f})"

    return [
        f"{config.method}{'' if config.in_order else ', out of order'}",
        f"{config.seconds:.0f}",
        f"{tally.batches:,}",
        f"{tally.checks + tally.batches:,}",
        str(tally.kills),
        str(outcome.replaced),
        str(tally.forks),
        _most(each.retained for each in outcome.looks),
        _most(each.arena for each in outcome.looks),
        str(len(tally.wrong)),
        per_minute("arena", MIB),
        per_minute("private", MIB),
        per_minute("descriptors", 1),
    ]
