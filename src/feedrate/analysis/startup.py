"""The verdict on the start of workers: what it costs, and from which epoch on it is paid back."""

from __future__ import annotations

from feedrate.analysis.conditions import Condition, finding
from feedrate.analysis.costs import costs, paid_back_from
from feedrate.analysis.summary import Point
from feedrate.analysis.wording import figure, median_of, workers
from feedrate.records import Evidence, Finding
from feedrate.units import seconds


def startup(condition: Condition) -> Finding | None:
    """Say what the chosen worker count costs at the start, held against the fewest workers.

    The choice is the plateau's start. Times are to the first batch, so they contain one fetch.
    """
    choice = condition.choice
    if choice is None or choice.startup is None or choice.workers == 0:
        return None
    fewest = condition.curve[0]
    used = (choice,) if choice is fewest else (choice, fewest)
    title = (
        f"the first batch comes after {seconds(choice.startup.median)} "
        f"with {workers(choice.workers)}"
    )
    remedy, epoch = "", None
    if choice is not fewest:
        if fewest.startup is not None:
            title += f" and after {seconds(fewest.startup.median)} with {fewest.workers}"
        paid, remedy, epoch = _payback(condition, choice, fewest)
        title += paid
    return finding(
        condition,
        "sweep.startup",
        f"{title}.",
        based_on=used,
        qualified=True,
        evidence=[
            *(median_of(f"start-up with {workers(p.workers)}", p.startup, "s") for p in used),
            *(item for point in used for item in _epochs(point)),
            figure("paid back from epoch", epoch, "epoch") if epoch is not None else None,
        ],
        remedy=remedy,
    )


def _payback(condition: Condition, choice: Point, fewest: Point) -> tuple[str, str, int | None]:
    """Return the rest of the title, the remedy, and the epoch."""
    dear, cheap = costs(choice), costs(fewest)
    if dear is None or cheap is None:
        return "", "", None
    epoch = paid_back_from(dear, cheap)
    more = workers(choice.workers)
    are, have, pay = ("is", "has", "pays") if choice.workers == 1 else ("are", "have", "pay")
    if epoch == 1:
        return (
            f"; {more} {are} ahead by the end of the first epoch already",
            "",
            1,
        )
    if epoch is not None:
        cut = ", its length completed at the measured pace" if dear.extrapolated else ""
        title = f"; {more} {have} paid that back by the end of epoch {epoch}{cut}"
        return title, f"For fewer epochs than {epoch} use num_workers={fewest.workers}.", epoch
    if dear.later is None or cheap.later is None:
        title = "; whether later epochs pay that back was not measured"
        more_epochs = "" if condition.is_fixed else "Measure a later epoch too (--epochs 2)."
        return title, more_epochs, None
    return (
        f"; {more} never {pay} that back",
        f"Use num_workers={fewest.workers}.",
        None,
    )


def _epochs(point: Point) -> list[Evidence | None]:
    cost = costs(point)
    if cost is None:
        return []
    with_workers = f"with {workers(point.workers)}"
    return [
        median_of(f"first epoch {with_workers}", cost.cold, "s"),
        median_of(f"later epoch {with_workers}", cost.later, "s"),
    ]
