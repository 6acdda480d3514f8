"""The findings of a watched run: those on its memory, and what its loaders tell beside them."""

from __future__ import annotations

from feedrate import units
from feedrate.analysis.leaks import is_leak, judge
from feedrate.analysis.wording import figure, workers
from feedrate.memory_records import MemoryWatch, ProcessReading
from feedrate.records import Finding, LoaderFacts, LoaderUse, Run, Suite

STANDING = frozenset({"memory.idle_workers", "memory.prefetch_queue"})
"""Memory that is taken and does not grow."""
_MANY_ITERATORS = 8
_QUEUE = 64 * 2**20
"""Less than this in the queue is not worth a word."""
_QUEUE_SHARE = 0.5
_NO_WAIT = 0.05
_DEFAULT_PREFETCH = 2
_IDLE = 16 * 2**20
_ORDER = ("error", "warning", "info")


def judge_leaks(suite: Suite) -> tuple[Finding, ...]:
    """Return the findings of a watch's suite, those that need action first."""
    run = watched_run(suite)
    found = list(judge(suite.watch)) if suite.watch is not None else []
    if run is not None:
        others = (_iterators(run), _idle(run, suite.watch), _queue(run, suite.watch))
        found += [each for each in others if each is not None]
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.severity)))


def grows(finding: Finding) -> bool:
    """Tell whether a finding is a leak: memory, descriptors or processes that grow."""
    return is_leak(finding) and finding.code not in STANDING


def watched_run(suite: Suite) -> Run | None:
    """Return the run that was watched."""
    runs = [run for benchmark in suite.benchmarks for run in benchmark.runs]
    return runs[0] if runs else None


def trained_use(run: Run) -> LoaderUse | None:
    """Return what is known of the watched loader."""
    return next((use for use in run.loaders if use.number == run.training_loader), None)


def wait_share(run: Run) -> float | None:
    """Return the share of the loop's time that it waited for batches."""
    seconds = sum(window.seconds for window in run.windows)
    waited = sum(window.wait_seconds for window in run.windows)
    return waited / seconds if seconds > 0 else None


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


def _idle(run: Run, watch: MemoryWatch | None) -> Finding | None:
    use = trained_use(run)
    kept = [
        each
        for each in run.loaders
        if each is not use and each.facts.num_workers and each.facts.persistent_workers
    ]
    if watch is None or not watch.looks or not kept:
        return None
    last = watch.looks[-1]
    before = {each.pid for look in watch.looks[:-1] for each in look.others}
    idle = [each for each in last.others if each.pid in before]
    held = sum(_own(each) for each in idle)
    if not idle or held < _IDLE:
        return None
    place = kept[0]
    where = f" (made at {place.file}:{place.line})" if place.file is not None else ""
    return Finding(
        code="memory.idle_workers",
        severity="warning",
        title=f"{workers(len(idle))} of another loader{where} stay alive while this one trains, as "
        f"after a validation with persistent_workers: they hold {units.size(held)} of their own.",
        evidence=(
            figure("idle workers", len(idle), ""),
            figure("their own memory (USS)", held, "bytes"),
        ),
        remedy="Set persistent_workers=False for the validation loader, or give it fewer workers.",
    )


def _queue(run: Run, watch: MemoryWatch | None) -> Finding | None:
    use = trained_use(run)
    facts: LoaderFacts | None = use.facts if use is not None else run.facts
    share = wait_share(run)
    if facts is None or watch is None or not facts.num_workers or not facts.batch_bytes:
        return None
    depth = facts.prefetch_factor or _DEFAULT_PREFETCH
    queue = facts.batch_bytes * facts.num_workers * depth
    rooms = [room for room in (watch.room.memory, watch.room.shm) if room is not None]
    is_full = any(queue > _QUEUE_SHARE * (room + queue) for room in rooms)
    is_idle = depth > _DEFAULT_PREFETCH and share is not None and share < _NO_WAIT
    if queue < _QUEUE or not (is_full or is_idle):
        return None
    saved = queue - facts.batch_bytes * facts.num_workers * min(depth, _DEFAULT_PREFETCH)
    why = (
        f"the loop waits only {units.share(share)} of its time, which a shorter queue gives too"
        if is_idle and share is not None
        else "that is more than half of what there is"
    )
    evidence = [
        figure("bytes of a batch", facts.batch_bytes, "bytes"),
        figure("batches that may wait", facts.num_workers * depth, ""),
        figure("what prefetch_factor 2 saves", saved, "bytes"),
    ]
    if share is not None:
        evidence.append(figure("share of the time spent waiting", share, "share"))
    return Finding(
        code="memory.prefetch_queue",
        severity="warning",
        title=f"Batches that wait take up to {units.size(queue)}: {workers(facts.num_workers)} × "
        f"prefetch_factor {depth} × {units.size(facts.batch_bytes)} a batch; {why}.",
        evidence=tuple(evidence),
        remedy="Set prefetch_factor=2 or 1, fewer workers, or smaller batches (uint8 instead of "
        "float32).",
    )


def _own(process: ProcessReading) -> int:
    memory = process.memory
    return memory.uss if memory.uss is not None else memory.rss
