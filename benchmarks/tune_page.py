"""The page of benchmarks/tune_regret.py, from its results."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import tables
from tune_plan import OURS, PEERS, Pace, Result, Tried

MOST_REGRET = 0.03
MOST_SHARE = 0.1
_NONE = "–"


def page(results: Sequence[Result], versions: Sequence[str], pace: Pace) -> list[str]:
    """Return the page's parts: what was measured, goals, each work, the time, the peers."""
    return [
        "# The settings that tune chooses, against an exhaustive grid",
        tables.made_by("tune_regret.py"),
        f"Peers: {', '.join(versions)}." if versions else "No peer could be had from PyPI.",
        _method(pace),
        "## Goals",
        goals(results),
        "## Each kind of work",
        _works(results),
        "## Where tune's seconds went",
        _WHERE,
        _parts(results),
        "## Beside its peers",
        _PEERS,
        peers(results),
        *_said(results),
    ]


def _method(pace: Pace) -> str:
    every = pace.workers == tuple(range(len(pace.workers)))
    counts = f"0 to {pace.workers[-1]}" if every else ", ".join(map(str, pace.workers))
    *others, last = map(str, pace.prefetch)
    return (
        "Every tuner gets a loader on which nobody has set anything. feedrate's is the command "
        "`feedrate tune --fresh --allow in_order` with its default budget, on an empty cache. The "
        "grid has all that it may then choose and that matters to a loader which is at work: "
        f"torch's own with {counts} workers, each with a prefetch_factor of {', '.join(others)} "
        f"and {last}, in order and in any; each setting once, in a fresh process, for "
        f"{pace.seconds:g} s after its queues have settled. Then the grid's two best and all that "
        f"was chosen are measured in the same way, {_times(pace.rounds)} in rotated order. Regret "
        "is how far a choice lies below the better of the grid's two, the median of the rounds; "
        "below zero it is faster."
    )


def _times(rounds: int) -> str:
    return "once more" if rounds == 1 else f"{rounds} times more"


_WHERE = (
    "After look, ramp and levels the settings are known; then they are confirmed against those "
    "that the loader has, each time in a process of its own, and what feedrate's own loader would "
    "give is measured beside them where that has a use. Such a process is forked from one that has "
    "imported torch and nothing else; each of the grid's imports it."
)
_SEARCH = ("look", "ramp", "levels")
"""What comes before the settings are known, and are confirmed."""
_PEERS = (
    "The same work, each with its own defaults, in a process of its own. loadtune is its command "
    "`loadtune tune`, which wants the work rewritten for it; dataloader-param-helper is its class. "
    "Threads of the main process that a peer also sets are left as they are: the steps compute "
    "nothing."
)


def goals(results: Sequence[Result]) -> str:
    """Return the median and the worst of all works, and whether the goals are met."""
    regrets = _regrets(results, OURS)
    shares = [share for each in results if (share := _share(each)) is not None]
    complete = len(regrets) == len(results)
    rows = [
        _goal("regret", regrets, MOST_REGRET, complete=complete),
        _goal("share of the grid's time", shares, MOST_SHARE, complete=complete),
    ]
    return tables.table(["", "median", "worst", "goal", "met"], rows)


def _goal(name: str, values: Sequence[float], most: float, *, complete: bool) -> list[str]:
    """Return a goal's row; work on which nothing was chosen is not met."""
    if not values:
        return [name, _NONE, _NONE, f"{most:.0%}", "short"]
    met = complete and max(values) <= most
    figures = [f"{median(values):.1%}", f"{max(values):.1%}"]
    return [name, *figures, f"{most:.0%}", "pass" if met else "short"]


def _regrets(results: Sequence[Result], tuner: str) -> list[float]:
    return [regret for each in results if (regret := each.regret(tuner)) is not None]


def _share(result: Result) -> float | None:
    tried = result.by(OURS)
    return tried.seconds / result.grid_seconds if tried is not None else None


def _works(results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        tried, best = each.by(OURS), each.best
        chosen = tried.chosen if tried is not None else None
        share = _share(each)
        rows.append(
            [
                each.work,
                str(chosen) if chosen is not None else "nothing",
                f"{median(each.again[chosen]):,.0f}" if chosen is not None else _NONE,
                str(best),
                f"{median(each.again[best]):,.0f}",
                _signed(each.regret(OURS)),
                _seconds(tried),
                f"{each.grid_seconds:.0f}",
                f"{share:.0%}" if share is not None else _NONE,
            ]
        )
    head = ["Work", "tune chose", "items/s", "best of the grid", "items/s", "regret"]
    return tables.table([*head, "tune, s", "grid, s", "share"], rows)


def _parts(results: Sequence[Result]) -> str:
    ours = [(each, tried) for each in results if (tried := each.by(OURS)) is not None]
    names = list(dict.fromkeys(name for _, tried in ours for name in tried.parts))
    rows = []
    for each, tried in ours:
        parts = [tried.parts.get(name) for name in names]
        figures = [f"{part:.1f}" if part is not None else _NONE for part in parts]
        search = sum(tried.parts.get(name, 0.0) for name in _SEARCH) / each.grid_seconds
        rows.append([each.work, *figures, f"{search:.0%}", tried.said])
    head = ["Work", *(f"{name}, s" for name in names), "search, share of the grid", "answer"]
    return tables.table(head, rows)


def peers(results: Sequence[Result]) -> str:
    """Return what each tuner chose, its regret and its seconds; all of them in the last row."""
    tuners = [OURS, *PEERS]
    head = ["Work"]
    for tuner in tuners:
        head += [f"{tuner} chose", "regret", "s"]
    rows = []
    for each in results:
        row = [each.work]
        for tuner in tuners:
            tried = each.by(tuner)
            chosen = tried.chosen if tried is not None else None
            choice = str(chosen) if chosen is not None else "nothing"
            row += [choice, _signed(each.regret(tuner)), _seconds(tried)]
        rows.append(row)
    last = ["median; worst"]
    for tuner in tuners:
        regrets = _regrets(results, tuner)
        both = f"{median(regrets):+.1%}; {max(regrets):+.1%}" if regrets else _NONE
        took = [tried.seconds for each in results if (tried := each.by(tuner)) is not None]
        times = f"{median(took):.0f}; {max(took):.0f}" if took else _NONE
        last += ["", both, times]
    return tables.table(head, [*rows, last])


def _said(results: Sequence[Result]) -> list[str]:
    """Return why a tuner chose nothing, one line for each reason."""
    works: dict[tuple[str, str], list[str]] = {}
    for each in results:
        for tried in each.tried:
            if tried.chosen is None:
                works.setdefault((tried.tuner, tried.said), []).append(each.work)
    lines = [f"- {who} ({'; '.join(where)}): {why}" for (who, why), where in works.items()]
    return ["Nothing was chosen:", "\n".join(lines)] if lines else []


def _signed(regret: float | None) -> str:
    return f"{regret:+.1%}" if regret is not None else _NONE


def _seconds(tried: Tried | None) -> str:
    return f"{tried.seconds:.0f}" if tried is not None else _NONE
