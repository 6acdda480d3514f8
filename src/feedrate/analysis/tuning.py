"""What is told of a tune: the recommendation, the findings.

Pure functions of what was measured, so that a file can be judged again. Settings are recommended
only as far as the race confirmed them: what the ramp alone speaks for is said as that.
"""

from __future__ import annotations

from feedrate.analysis import beside, stability
from feedrate.analysis.answering import Answer, answer
from feedrate.analysis.limiting import findings, look_evidence, made
from feedrate.analysis.one_rank import of_ranks
from feedrate.analysis.possible import doubt
from feedrate.analysis.race import Duel
from feedrate.analysis.reasons import chosen_words, line, named, reasons, statements
from feedrate.analysis.stats import ENOUGH_RUNS
from feedrate.analysis.tuned import NO_TIME, Tuned, broke_at, read
from feedrate.analysis.wording import change, figure, limit, percent, rate, ratio_of, workers
from feedrate.records import Finding, Recommendation, Suite
from feedrate.units import seconds

LEAST_GAIN = 0.0005
"""A smaller one is written as none."""
_NO_FAILURE = ("interrupted", "fixed_workers")
"""Ways in which a run ends that the course of a tune takes into account."""


def judge(suite: Suite) -> tuple[Finding, ...]:
    """Return the findings of a tune: the answer, what limits the loop, how it was measured."""
    tuned = read(suite)
    found = answer(tuned)
    said = [
        _answer(tuned, found),
        *findings(tuned, found.kind, found.duel),
        beside.finding(tuned),
    ]
    known = tuple(each for each in said if each is not None)
    rest = (*of_ranks(suite.metadata), *stability.of_suite(suite))
    return (*known, *_course(tuned, found), *rest)


def recommend(suite: Suite) -> Recommendation | None:
    """Return the settings that were confirmed; ``None`` where there is nothing to change."""
    tuned = read(suite)
    found = answer(tuned)
    if found.kind not in ("gain", "cheaper") or found.duel is None or tuned.use is None:
        return None
    settings = found.duel.winner.settings
    return Recommendation(
        settings=settings,
        reasons=reasons(tuned, settings),
        ratio=ratio_of("rate against your settings", found.duel.ratio),
        confirmations=found.duel.rounds,
        line=line(settings),
        statements=statements(settings),
        file=tuned.use.file,
        line_number=tuned.use.line,
    )


def _answer(tuned: Tuned, found: Answer) -> Finding | None:
    if found.kind in ("nothing", "gain", "cheaper"):
        return None  # said by what the search found wrong, with its measured gain
    look = tuned.look
    assert look is not None, "only an answer of nothing has no look"
    if found.kind == "too_short":
        got = tuned.use.batches if tuned.use is not None else look.batches
        return made(
            "tune.too_short",
            f"the loop got {got} batch{'' if got == 1 else 'es'} and ended: too few to measure "
            "other settings.",
            severity="warning",
            remedy="Let the script run longer: more epochs, or a larger part of the dataset.",
        )
    if found.kind == "step_bound":
        return made(
            "speed.step_bound",
            f"your loop is step-bound: {_to_gain(tuned)} from a faster loader. It "
            f"waits {percent(look.wait_share)} of the time; a step takes "
            f"{seconds(look.step)}.",
            evidence=look_evidence(tuned),
            remedy="Keep your settings. What is left to make faster is the step itself.",
        )
    if found.kind == "unconfirmed":
        return _unconfirmed(tuned)
    return _kept(tuned, found)


def _to_gain(tuned: Tuned) -> str:
    gain = tuned.most_gain or 0.0
    return f"at most {percent(gain)} to gain" if gain >= LEAST_GAIN else "nothing to gain"


def _kept(tuned: Tuned, found: Answer) -> Finding:
    """Say that the user's own settings stay, and what was held against them."""
    against = found.duel
    if against is None:
        count = tuned.own.num_workers if tuned.own is not None else 0
        return made(
            "tune.keep",
            f"the search ended at your own settings ({workers(count)}): keep them.",
            evidence=look_evidence(tuned),
        )
    tried = f"{named(against.winner.settings)} {_changes(against)} in {_runs(against.rounds)}"
    evidence = [ratio_of("rate against your settings", against.ratio)]
    if found.kind == "undecided":
        changed = doubt(tuned, against)
        why = changed or "that does not settle whether it is faster"
        return made(
            "tune.undecided",
            f"{tried}; {why}. Keep your settings.",
            severity="warning",
            evidence=evidence,
            remedy="Close other programs and tune again." if changed else _more_time(tuned),
        )
    return made(
        "tune.keep",
        f"{tried}: no gain beyond noise and {limit(tuned.procedure.tolerance)}. Keep your "
        "settings.",
        evidence=evidence,
    )


def _unconfirmed(tuned: Tuned) -> Finding:
    best = chosen_words(tuned)
    title = "no other number of workers was measured, so nothing is recommended."
    if best:
        title = (
            f"the search speaks for {best}, which was not confirmed against your settings: nothing "
            "is recommended."
        )
    return made(
        "tune.unconfirmed",
        title,
        severity="warning",
        evidence=look_evidence(tuned),
        remedy="" if _left_out(tuned) else "Let it run to its end; --budget says how long it may.",
    )


def _left_out(tuned: Tuned) -> list[Finding]:
    """Return what the limits did not allow.

    A machine that cannot hold it is to be known; that more time would have tried more, is said.
    """
    left = [each.benchmark for each in tuned.race if each.benchmark.skipped is not None]
    return [
        made(
            "tune.skipped",
            f"{each.label} was not tried: {each.skipped}.",
            severity="info" if each.skipped == NO_TIME else "warning",
            remedy="--budget says how long it may take." if each.skipped == NO_TIME else "",
        )
        for each in left
    ]


def _course(tuned: Tuned, found: Answer) -> list[Finding]:
    """Say what a reader must know of how it was measured: failures, and few confirmations."""
    told = _left_out(tuned)
    said: set[str] = set()
    for run in tuned.runs:
        if run.error is None or run.error.kind in _NO_FAILURE or run.error.sentence in said:
            continue
        if found.kind == "too_short" and run.error.kind == "no_batches":
            continue  # that is the answer itself
        sentence = run.error.sentence
        said.add(sentence)
        at = broke_at(run)
        where = f"with {workers(at)}, a run failed" if at is not None else "a run failed"
        if sentence == tuned.look_error:
            where = "the script failed, with your own settings too"
        told.append(
            made(
                "tune.failed",
                f"{where}: {sentence}",
                severity="warning",
                remedy="feedrate report FILE -v shows the whole traceback."
                if run.error.traceback
                else "",
            )
        )
    if any(each.differs for each in tuned.race):
        iterable = tuned.facts is not None and tuned.facts.iterable
        told.append(
            made(
                "correctness.iterable_duplicates" if iterable else "correctness.items_differ",
                "with another number of workers an epoch has another number of batches, so the "
                "rates cannot be compared.",
                severity="error",
                remedy="Shard by torch.utils.data.get_worker_info(), or keep num_workers at 0 or 1."
                if iterable
                else "Find what makes the items depend on num_workers: dataset or sampler.",
            )
        )
    if (few := _few_rounds(found)) is not None:
        told.append(
            made(
                "tune.few_confirmations",
                f"confirmed by {_runs(few)} instead of {ENOUGH_RUNS}: the time budget held no "
                "more.",
                evidence=[figure("confirmations of each", few, "runs")],
                remedy=_more_time(tuned),
            )
        )
    return told


def _few_rounds(found: Answer) -> int | None:
    """Return how many rounds there were, where more would make the answer surer."""
    held = found.duel
    if held is None or held.beyond_doubt or found.kind == "keep":
        return None
    return held.rounds if held.rounds < ENOUGH_RUNS else None


def _changes(against: Duel) -> str:
    return (
        f"delivers {rate(against.winner.rate)} and your settings {rate(against.own.rate)}, "
        f"{change(against.ratio)}"
    )


def _runs(rounds: int) -> str:
    return f"{rounds} run{'' if rounds == 1 else 's'} of each"


def _more_time(tuned: Tuned) -> str:
    budget = tuned.procedure.budget_seconds
    return f"Give it more time: --budget {2 * budget:.0f}s." if budget else "Give it more time."
