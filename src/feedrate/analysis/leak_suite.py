"""The findings of a watched run: those on its memory, and what its loaders tell beside them."""

from __future__ import annotations

from feedrate import units
from feedrate.analysis.leaks import is_leak, judge
from feedrate.analysis.standing import STANDING, standing
from feedrate.analysis.watched import trained_use, wait_share, watched_run
from feedrate.analysis.wording import figure, workers
from feedrate.records import Finding, Run, Suite

_MANY_ITERATORS = 8
_ORDER = ("error", "warning", "info")


def judge_leaks(suite: Suite) -> tuple[Finding, ...]:
    """Return the findings of a watch's suite, those that need action first."""
    run = watched_run(suite)
    found = list(judge(suite.watch)) if suite.watch is not None else []
    if run is not None:
        many = _iterators(run)
        found += [many] if many is not None else []
        found += standing(run, suite.watch)
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.severity)))


def grows(finding: Finding) -> bool:
    """Tell whether a finding is a leak: memory, descriptors or processes that grow."""
    return is_leak(finding) and finding.code not in STANDING


def _iterators(run: Run) -> Finding | None:
    use = trained_use(run)
    if use is None or use.epochs < _MANY_ITERATORS or use.batches > 1.5 * use.epochs:
        return None
    if use.facts.length == 1:
        return None
    count = use.facts.num_workers
    started = f", and each starts {workers(count)}" if count else ""
    evidence = [
        figure("iterators", use.epochs, ""),
        figure("batches", use.batches, ""),
    ]
    share = wait_share(run)
    if share is not None:
        evidence.append(figure("share of the time spent waiting", share, "share"))
    return Finding(
        code="speed.iterator_per_step",
        severity="warning",
        title=f"A new iterator is made for every batch: {units.number(use.epochs)} iterators gave "
        f"{units.number(use.batches)} batches{started}. What it has loaded ahead is thrown away.",
        evidence=tuple(evidence),
        remedy="Call iter(loader) once an epoch, or loop over the loader, and next() on that "
        "iterator.",
    )
