"""What limits a loop, as far as a tune's measurements show it: findings with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from feedrate import units
from feedrate.analysis.candidates import chosen_level
from feedrate.analysis.race import Duel
from feedrate.analysis.reasons import named
from feedrate.analysis.signs import IDLE_CPUS, WAITS, cpus_full, fetches_vary, short_of_memory
from feedrate.analysis.tuned import Tuned
from feedrate.analysis.windows import Stretch
from feedrate.analysis.wording import change, figure, percent, rate, ratio_of, workers
from feedrate.records import Evidence, Finding, Severity

_TIMES = 2.0
_CONGESTED = 1.5
"""How many times longer a fetch takes at the highest level than at the lowest, where they share."""
_FETCHING = 0.8
"""Above this share of their time workers do nothing but fetch; with less they have none to lose."""


def findings(tuned: Tuned, kind: str, against: Duel | None) -> Iterator[Finding | None]:
    """Yield what limits the loop; what was gained first. ``None`` for what does not apply."""
    if against is not None and kind in ("gain", "cheaper"):
        yield _gained(tuned, kind, against)
        yield _unseen_shares(tuned, against)
        if against.winner.settings.persistent_workers:
            yield _restarted(tuned, against)
    if kind in ("nothing", "too_short", "step_bound"):
        return
    yield _short_of_memory(tuned)
    best = chosen_level(tuned)
    if best is None or best.wait_share < WAITS:
        return
    yield _latency_bound(tuned, best)
    yield _shared_limit(tuned) or _load_bound(tuned, best)
    if not cpus_full(tuned):
        yield _head_of_line(tuned, best)


def look_evidence(tuned: Tuned) -> list[Evidence]:
    """Return the figures of the loop as it is, and its ceiling."""
    look = tuned.look
    if look is None:
        return []
    found = [
        figure("rate with your settings", look.rate, "items/s"),
        figure("share of the time that the loop waits", look.wait_share, "share"),
        figure("seconds of a step", look.step, "s"),
    ]
    if tuned.cached is not None:
        found.append(figure("rate fed by one cached batch", tuned.cached.rate, "items/s"))
    return found


def made(
    code: str,
    title: str,
    *,
    severity: Severity = "info",
    evidence: Iterable[Evidence] = (),
    remedy: str = "",
) -> Finding:
    """Return a finding of a tune, with a capital at its start unless that is a name in code."""
    first = title.partition(" ")[0]
    is_name = "=" in first or "." in first
    return Finding(
        code=code,
        severity=severity,
        title=title if is_name else title[:1].upper() + title[1:],
        evidence=tuple(evidence),
        remedy=remedy,
    )


def _gained(tuned: Tuned, kind: str, against: Duel) -> Finding:
    own, look = against.own, tuned.look
    assert look is not None, "a race follows a look"
    before, after = own.settings.num_workers, against.winner.settings.num_workers
    keeps = against.winner.settings.persistent_workers
    gain = f"{named(against.winner.settings)} {_gain(against)}"
    waits = f"the loop waits {percent(look.wait_share)} of the time"
    if kind == "cheaper":
        code = "speed.too_many_workers"
        title = (
            f"{workers(after)} {'delivers' if after == 1 else 'deliver'} what {before} do "
            f"({rate(against.winner.rate)} and {rate(own.rate)}, {change(against.ratio)})."
        )
    elif after == before:
        code, title = "speed.settings", f"{waits}: {gain}."
    elif after == 0:
        code = "speed.transport_dominates"
        title = f"moving batches from {workers(before)} costs more than making them: {gain}."
    elif before == 0:
        code = "speed.no_overlap"
        title = f"with no workers the step waits for every batch, {waits}: {gain}."
    elif after < before and keeps and not own.settings.persistent_workers:
        # which of the two it was that gained was not measured
        code, title = "speed.settings", f"{waits}: {gain}."
    elif after > before:
        code = "speed.too_few_workers"
        do = "does" if before == 1 else "do"
        title = f"{workers(before)} {do} not keep up, {waits}: {gain}."
    else:
        code = "speed.too_many_workers"
        title = f"{workers(before)} are in each other's way: {gain}."
    return made(
        code,
        title,
        severity="info" if kind == "cheaper" else "warning",
        evidence=[
            ratio_of("rate against your settings", against.ratio),
            figure(f"rate with {workers(after)}", against.winner.rate, "items/s"),
            *look_evidence(tuned),
        ],
        remedy=f"Set {named(against.winner.settings)}.",
    )


def _gain(against: Duel) -> str:
    """Return "gains 12 % (…)", and "delivers 6.00× as much" where that is easier to read."""
    if against.ratio.value < _TIMES:
        return f"gains {change(against.ratio)}"
    return f"delivers {units.ratio(against.ratio.value)} as much"


def _restarted(tuned: Tuned, against: Duel) -> Finding | None:
    own = tuned.own
    if own is None or own.num_workers == 0 or own.persistent_workers:
        return None
    starts = [
        run.startup_seconds for run in against.own.benchmark.runs if run.startup_seconds is not None
    ]
    if not starts:
        return None
    return made(
        "speed.epoch_gap",
        f"workers are started again for each epoch: {units.seconds(max(starts))} each time.",
        severity="warning",
        evidence=[figure("start-up with your settings", max(starts), "s")],
        remedy="Set persistent_workers=True.",
    )


def _unseen_shares(tuned: Tuned, against: Duel) -> Finding | None:
    """Say that nothing shows whether the workers of a stream share its items out."""
    count = against.winner.settings.num_workers
    use = tuned.use
    if use is None or not use.facts.iterable or count < 2:
        return None
    loaders = (each for run in against.winner.benchmark.runs for each in run.loaders)
    ended = any(each.ended_batches for each in loaders if each.number == use.number)
    if use.ended_batches is not None and ended:
        return None
    return made(
        "correctness.shares_unseen",
        f"whether {workers(count)} share the items out was not seen, since no epoch came to its "
        f"end: a stream that does not split them gives each of them {count} times.",
        severity="warning",
        remedy="Make sure that the dataset's __iter__ asks torch.utils.data.get_worker_info() for "
        "its part.",
    )


def _short_of_memory(tuned: Tuned) -> Finding | None:
    found = short_of_memory(tuned)
    if found is None:
        return None
    return made(
        "tune.memory",
        f"more than {workers(found.level)} were not tried: {found.reason}.",
        severity="warning",
        remedy="Free memory, or raise --max-ram or --max-shm, and tune again with --fresh.",
    )


def _latency_bound(tuned: Tuned, best: Stretch) -> Finding | None:
    roof = tuned.roof
    if not roof.waits_for_storage or best.level <= roof.cpus or cpus_full(tuned):
        return None
    return made(
        "speed.latency_bound",
        f"workers wait for storage: a batch takes {units.seconds(roof.fetch or 0)}, of which "
        f"{units.seconds(roof.worker_cpu or 0)} is CPU time, so more workers than CPUs pay.",
        evidence=[
            figure("seconds of a fetch", roof.fetch or 0, "s"),
            figure("CPU seconds of a fetch", roof.worker_cpu or 0, "s"),
        ],
    )


def _load_bound(tuned: Tuned, best: Stretch) -> Finding | None:
    roof = tuned.roof
    if roof.binding(best.level) != "cpus" or best.batch_rate < (1 - WAITS) * roof.at(best.level):
        return None
    if tuned.surpasses(roof.at(best.level)):
        return None
    return made(
        "speed.load_bound",
        f"making the batches is the limit: {roof.words('cpus', best.level)}, and the loop still "
        f"waits {percent(best.wait_share)} of the time with {workers(best.level)}.",
        severity="warning",
        evidence=[
            figure("CPU seconds a batch", roof.cpu or 0, "s"),
            figure(f"share of waiting with {workers(best.level)}", best.wait_share, "share"),
        ],
        remedy="Make the items cheaper (smaller images, less work per item, a cache), or use a "
        "machine with more CPUs: no setting gets beyond this.",
    )


def _shared_limit(tuned: Tuned) -> Finding | None:
    """Say that a resource outside the CPUs is full: fetches get longer, and CPUs stay idle."""
    fed = [each for each in tuned.levels if each.level > 0 and each.fetch]
    if len(fed) < 2:
        return None
    low, high = fed[0], fed[-1]
    cpu = high.cpu
    if not low.fetch or not high.fetch or cpu is None or high.fetch < _CONGESTED * low.fetch:
        return None
    busy = high.batch_rate * cpu / tuned.roof.cpus
    if busy > IDLE_CPUS or high.fetch * high.batch_rate < _FETCHING * high.level:
        return None
    return made(
        "speed.shared_limit",
        f"something that all workers share is full (storage, network, a lock): with "
        f"{workers(high.level)} a batch takes {units.seconds(high.fetch)} instead of "
        f"{units.seconds(low.fetch)} with {low.level}, and the CPUs are {percent(busy)} busy.",
        severity="warning",
        evidence=[
            figure(f"seconds of a fetch with {workers(each.level)}", each.fetch or 0, "s")
            for each in (low, high)
        ],
        remedy="Read less, or from faster storage: more workers add nothing.",
    )


def _head_of_line(tuned: Tuned, best: Stretch) -> Finding | None:
    if not fetches_vary(best) or (tuned.facts is not None and tuned.facts.in_order is False):
        return None
    if (best.fetch or 0.0) * (best.fetch_variation or 0.0) < best.wait:
        return None  # batches so quick that their differences do not make up what the loop waits
    tried = any(each.settings.in_order is False and each.rates for each in tuned.race)
    varies = best.fetch_variation or 0.0
    return made(
        "speed.head_of_line",
        "batches take uneven time (standard deviation "
        f"{percent(varies)} of the mean), and a slow one holds finished ones back.",
        evidence=[figure("variation of fetch times", varies, "share")],
        remedy="in_order=False was tried."
        if tried
        else "Where the order of batches does not matter, in_order=False (torch 2.6) lets "
        "finished ones pass; it was not tried, for it changes the order. --allow in_order tries "
        "it.",
    )
