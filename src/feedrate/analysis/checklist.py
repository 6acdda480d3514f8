"""The questions that people ask of a training that feeds itself, each answered by one figure."""

from __future__ import annotations

import msgspec

from feedrate import units
from feedrate.analysis.leak_suite import grows
from feedrate.analysis.phases import workers_stay
from feedrate.analysis.watched import trained_use, wait_share, watched_run
from feedrate.analysis.wording import workers
from feedrate.memory_records import MemoryWatch
from feedrate.records import Run, Suite

_HALF = 0.5
_WAITS_MUCH = 0.1
_NO_STEP = 0.03
"""What takes less than this share of the time is no training step."""
_NO_STEP_SECONDS = 1e-4
"""And what takes no longer than this: a loop that only counts, or takes note of the time."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer in figures; ``is_good`` is ``None`` where it is not known."""

    question: str
    answer: str
    is_good: bool | None


def checklist(suite: Suite) -> tuple[Checked, ...]:
    """Return the answers that a watch can give."""
    run = watched_run(suite)
    if run is None or suite.watch is None or not suite.watch.looks:
        return ()
    return (_memory(suite), _device(run), _dying(run, suite), _items(run), _kept(run, suite))


def _memory(suite: Suite) -> Checked:
    leaks = [finding for finding in suite.findings if grows(finding)]
    is_open = any(finding.code == "memory.undecided" for finding in suite.findings)
    epochs = suite.watch.complete_epochs if suite.watch is not None else 0
    question = "memory grows per epoch?"
    if leaks:
        rates = [each for each in leaks[0].evidence if each.name == "growth per epoch"]
        rate = f"{_amount(rates[0].value, rates[0].unit)} an epoch" if rates else leaks[0].code
        answer = f"yes: {rate}"
        if rates and not rates[0].unit:  # a count, of descriptors, threads or processes
            what = (
                leaks[0].evidence[0].name.removeprefix("growth of the ").removesuffix(" per item")
            )
            answer = f"{what} grow: {rate}"
        return Checked(question=question, answer=answer, is_good=False)
    run = watched_run(suite)
    has_failed = run is not None and run.error is not None
    if is_open or has_failed or not epochs:
        answer = f"not decided after {units.number(epochs)} epochs"
        return Checked(question=question, answer=answer, is_good=None)
    answer = f"no, over {units.number(epochs)} epochs"
    if any(finding.code == "memory.bounded_cache" for finding in suite.findings):
        answer = "until a cache with a limit is full"
    return Checked(question=question, answer=answer, is_good=True)


def _device(run: Run) -> Checked:
    question = "device utilization above half?"
    if run.device is None:
        return Checked(question=question, answer="no device is used", is_good=None)
    used = run.device.utilization
    if used is None:
        answer = "not known: pip install 'feedrate[gpu]' lets it be read"
        return Checked(question=question, answer=answer, is_good=None)
    is_good = used > _HALF
    answer = f"{'yes' if is_good else 'no'}: {units.share(used)}"
    return Checked(question=question, answer=answer, is_good=is_good)


def _dying(run: Run, suite: Suite) -> Checked:
    question = "workers dying?"
    watch = suite.watch
    assert watch is not None
    if run.error is not None and run.error.kind in ("worker_died", "out_of_memory", "killed"):
        return Checked(question=question, answer=f"yes: {run.error.sentence}", is_good=False)
    count = max(len(look.workers) for look in watch.looks)
    if not count:
        return Checked(question=question, answer="there are none", is_good=None)
    use = trained_use(run)
    facts = use.facts if use is not None else run.facts
    died, gone = _vanished(watch)
    if facts is None or facts.loader != "feedrate":
        died = gone
    if facts is not None and facts.iterable and not watch.persistent_workers:
        died = gone = 0  # one whose part of the items is done is ended; torch raises if one dies
    if died:
        return Checked(question=question, answer=f"yes: {workers(died)} vanished", is_good=False)
    if gone:
        answer = f"not known: {workers(gone)} left, as when fewer are needed; stats().deaths tells"
        return Checked(question=question, answer=answer, is_good=None)
    return Checked(question=question, answer=f"no: none of {units.number(count)}", is_good=True)


def _vanished(watch: MemoryWatch) -> tuple[int, int]:
    """Return how many workers were gone within an epoch: those that were replaced, and all.

    `feedrate.DataLoader` puts another in the place of one that dies, and none in that of one that
    it lets go.
    """
    replaced = gone = 0
    epochs: dict[int, set[int]] = {}
    for look in watch.looks:
        pids = {each.pid for each in look.workers}
        before = epochs.get(look.epoch, set())
        left = before - pids - {each.pid for each in look.others} if pids else set()
        gone += len(left)
        replaced += len(left) if len(pids) == len(before) else 0
        epochs[look.epoch] = pids or before
    return replaced, gone


def _items(run: Run) -> Checked:
    question = "items made efficiently?"
    share = wait_share(run)
    seconds = sum(window.seconds for window in run.windows)
    items = sum(window.items for window in run.windows)
    if share is None or seconds <= 0:
        return Checked(question=question, answer="not measured", is_good=None)
    rate = units.rate(items / seconds)
    stepped = sum(window.step_seconds for window in run.windows)
    batches = sum(window.batches for window in run.windows)
    if stepped < max(_NO_STEP * seconds, _NO_STEP_SECONDS * batches):
        answer = f"{rate} items/s without a step: feedrate tune tells"
        return Checked(question=question, answer=answer, is_good=None)
    answer = f"the loop waits {units.share(share)} of its time, at {rate} items/s"
    return Checked(question=question, answer=answer, is_good=share < _WAITS_MUCH)


def _kept(run: Run, suite: Suite) -> Checked:
    question = "workers kept between epochs?"
    watch = suite.watch
    assert watch is not None
    if not any(look.workers for look in watch.looks):
        return Checked(question=question, answer="there are none", is_good=None)
    if watch.complete_epochs < 2:
        return Checked(question=question, answer="not known after one epoch", is_good=None)
    if workers_stay(watch):
        epochs = units.number(watch.complete_epochs)
        answer = f"yes: the same processes in {epochs} epochs"
        return Checked(question=question, answer=answer, is_good=True)
    start = run.startup_seconds
    cost = f": {units.seconds(start)} to each first batch" if start is not None else ""
    return Checked(question=question, answer=f"no{cost}", is_good=False)


def _amount(value: float, unit: str) -> str:
    return units.size(max(0.0, value)) if unit == "bytes" else units.number(max(0.0, value))
