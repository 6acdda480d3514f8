"""How many rounds a race had, and why no more. Pure."""

from __future__ import annotations

from feedrate.analysis.tuned import Tuned


def rounds(tuned: Tuned) -> str:
    """Return what is to be said of the race's rounds, "" without one."""
    had = max((len(each.rates) for each in tuned.race), default=0)
    if not had:
        return ""
    words = f"{had} round{'' if had == 1 else 's'} against your settings, in rotated order"
    wanted = tuned.procedure.repeats
    last = [each for each in tuned.race if len(each.rates) == had and each.sound]
    if had >= wanted or len(last) < 2:
        return words
    budget = tuned.procedure.budget_seconds
    spent = sum(run.seconds or 0.0 for run in tuned.runs)
    if budget is not None and spent + sum(each.seconds for each in last) > budget:
        return f"{words}; for {wanted} the time was short"
    return f"{words}; more, up to {wanted}, would change nothing"
